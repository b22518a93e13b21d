#pragma once

// Kernels that add up where time goes: every family forwards to the one it wraps and keeps seconds and calls. Results are those
// of the wrapped kernels, bit for bit.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lab/step_products.h"
#include "ops/ops.h"

namespace lockstep::lab {

/// The lines of a step's account.
enum class Part : std::uint8_t { products, attention, rows, loss, update, data, rest, count };
std::string_view name_of(Part part);

/// Seconds and calls of one op.
struct OpTime {
  std::string_view name;  ///< "linear.forward"
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

class TimedOps final : public ops::Ops {
 public:
  /// `inner` must outlive it.
  explicit TimedOps(ops::Ops& inner);
  ~TimedOps() override;

  ops::Linear& linear() override;
  ops::Norm& norm() override;
  ops::Norm& rms_norm() override;
  ops::Rotary& rotary() override;
  ops::Attention& attention() override;
  ops::Activations& activation() override;
  ops::Embedding& embedding() override;
  ops::Dropout& dropout() override;
  ops::Loss& loss() override;
  ops::Elementwise& elementwise() override;
  ops::Reduce& reduce() override;
  ops::Update& update() override;
  std::int64_t workspace_bytes() const override;

  /// Since construction or reset(); every op, called or not.
  const std::vector<OpTime>& times() const;
  const std::vector<ProductTime>& products() const;
  /// Seconds of the ops that belong to a part; 0 for data and rest.
  double seconds(Part part) const;
  void reset();

 private:
  struct Families;
  ops::Ops& inner_;
  std::unique_ptr<Families> families_;
};

}  // namespace lockstep::lab
