#pragma once

// A small training run that says whether ranks can train together. A chain of linear layers without activations learns to give
// back its input. Every rank draws its own samples, gradients are averaged, Adam updates. The right course of the loss is known.
// It is a sum of squares over a rank's batch, and falls from 2,100 to 2,800 to about 360 in 100 iterations.

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

/// The options that environment variables ask for: BATCH_SIZE, INPUT_SIZE, OUTPUT_SIZE, LAYER_SIZES (or SIZES, LAYERS:
/// 1024,512,256), TRAIN_ITERS, LOG_FREQ, DTYPE, BACKEND, MASTER_PORT. `variable(name)` is a value or null. Throws UserError, with
/// every problem, for values that are out of range.
TestDistOptions test_dist_options(const std::function<const char*(const char*)>& variable);

/// One iteration on one rank. Seconds: `seconds` the whole, `forward` with the loss, `backward` with reduction and update.
struct TestDistIteration {
  std::int64_t iteration = 0;
  double loss = 0;
  double samples_per_second = 0;  ///< of this rank
  double seconds = 0, forward = 0, backward = 0;
};
/// "iter=1, loss=2152.41, sps=1.697e+04, dt=0.00377066, dtf=0.001003, dtb=0.002768".
std::string to_line(const TestDistIteration& iteration);

/// Inputs and outputs of the layers, from the input on.
std::vector<std::int64_t> layer_widths(const TestDistOptions& options);
std::int64_t parameters_of(const TestDistOptions& options);

class TestDist {
 public:
  /// Collective. All arguments outlive it.
  TestDist(TestDistOptions options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world);
  ~TestDist();
  TestDist(const TestDist&) = delete;
  TestDist& operator=(const TestDist&) = delete;

  /// The next iteration; collective.
  TestDistIteration step();
  /// Runs all iterations. Those that the options want logged are given to `logged` (may be empty) and returned, but for the first
  /// one.
  std::vector<TestDistIteration> run(const std::function<void(const TestDistIteration&)>& logged);
  /// All parameters, layer by layer.
  Tensor weights() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::lab
