#pragma once

// A small training run that says whether ranks can train together: a chain of linear layers without activations learns to give
// back its input. Every rank draws its own samples, gradients are averaged, Adam updates. What it learns is known: the loss, a
// sum of squares over a rank's batch, falls from 2,100 to 2,800 to about 360 in 100 iterations.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/runtime.h"
#include "ops/ops.h"

namespace lockstep::lab {

struct TestDistOptions {
  std::int64_t batch = 64;  ///< of each rank
  std::int64_t input = 128, output = 128;
  std::vector<std::int64_t> layers{1024, 512, 256, 128};
  std::int64_t iterations = 100;
  std::int64_t log_every = 1;
  std::uint64_t seed = 1337;
};

/// As variables of the environment say: BATCH_SIZE, INPUT_SIZE, OUTPUT_SIZE, LAYER_SIZES (or SIZES, LAYERS: 1024,512,256),
/// TRAIN_ITERS, LOG_FREQ, DTYPE, BACKEND, MASTER_PORT; `variable(name)` is a value or null. UserError, with every problem, for
/// values that cannot be.
TestDistOptions test_dist_options(const std::function<const char*(const char*)>& variable);

/// One iteration on one rank. Seconds: all of it, forward with the loss, backward with reduction and update.
struct TestDistIteration {
  std::int64_t iteration = 0;
  double loss = 0;
  double samples_per_second = 0;  ///< of this rank
  double seconds = 0, forward = 0, backward = 0;
};
/// "iter=1, loss=2152.41, sps=1.697e+04, dt=0.00377066, dtf=0.001003, dtb=0.002768".
std::string to_line(const TestDistIteration& iteration);

/// Layers, from the input on: inputs and outputs of each.
std::vector<std::int64_t> layer_widths(const TestDistOptions& options);
std::int64_t parameters_of(const TestDistOptions& options);

class TestDist {
 public:
  /// Collective. Everything outlives it.
  TestDist(TestDistOptions options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world);
  ~TestDist();
  TestDist(const TestDist&) = delete;
  TestDist& operator=(const TestDist&) = delete;

  /// The next iteration; collective.
  TestDistIteration step();
  /// All iterations. Those behind the first that the options want logged are given to `logged` (may be empty) and returned.
  std::vector<TestDistIteration> run(const std::function<void(const TestDistIteration&)>& logged);
  /// Every parameter, layer by layer.
  Tensor weights() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::lab
