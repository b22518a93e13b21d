#pragma once

// An observer of a rank's kernels, which adds up the seconds of ops.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "device/stream.h"
#include "lab/step/step_products.h"
#include "ops/op_scope.h"

namespace lockstep::lab {

/// The lines of a step's account.
enum class Part : std::uint8_t { products, attention, rows, loss, update, ranks, rest, count };
std::string_view name_of(Part part);

/// Seconds and calls of one op.
struct OpTime {
  std::string_view family, name;  ///< "linear", "forward"
  Part part;
  double seconds = 0;
  std::int64_t calls = 0;
};

/// Seconds and calls of a layer's product of one shape (StepProduct's role, m, n, k).
struct ProductTime {
  ProductRole role;
  std::int64_t m, n, k;
  double seconds = 0;
  std::int64_t calls = 0;
};

class OpAccount final : public ops::OpObserver {
 public:
  /// From now on an op's time begins when all earlier work on `stream` is done, and ends when its own is. The stream outlives
  /// this.
  void wait_for(Stream& stream) { stream_ = &stream; }
  void begin(const ops::OpCall& call) override;
  void end(const ops::OpCall& call) noexcept override;

  /// The ops that were called since construction or reset(), in the order of their first calls.
  const std::vector<OpTime>& times() const { return ops_; }
  const std::vector<ProductTime>& products() const { return products_; }
  /// Seconds of the ops that belong to a part; 0 for ranks and rest.
  double seconds(Part part) const;
  void reset();

 private:
  std::vector<OpTime> ops_;
  std::vector<ProductTime> products_;
  // The call under way: its places in ops_ and products_, and when it began.
  std::size_t op_ = 0, product_ = 0;
  double start_ = 0;
  Stream* stream_ = nullptr;
};

}  // namespace lockstep::lab
