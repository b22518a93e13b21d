#pragma once

// Where an op begins and ends. A family's public functions check, then open a scope around the kernel: the observer that the Ops
// were made with is told of both ends. Without an observer a scope costs a branch. An observer may take times, or open memory for
// kernels alone. It sees a new op through the op's scope.

#include <cstdint>
#include <string_view>

namespace lockstep::ops {

/// Which of the three products of a layer y = x w^T a call is, or none.
enum class LayerProduct : std::uint8_t { none, forward, input_gradient, weight_gradient };

/// One call of an op; its names live as long as the program.
struct OpCall {
  std::string_view family;  ///< "linear"
  std::string_view name;    ///< "forward"
  LayerProduct product = LayerProduct::none;
  std::int64_t m = 0, n = 0, k = 0;  ///< of a product: tokens, out-features, in-features
};

/// Hears of ops. It is called on the thread that calls them, one op at a time.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  /// The arguments were checked; their memory has not been touched yet.
  virtual void begin(const OpCall& call) = 0;
  /// The same call has returned or thrown.
  virtual void end(const OpCall& call) noexcept = 0;
};

/// A call that lasts as long as this lives.
class [[nodiscard]] OpScope {
 public:
  /// `observer` is told when the call begins and ends. Null: no observer is told.
  OpScope(OpObserver* observer, const OpCall& call) : observer_(observer), call_(call) {
    if (observer_ != nullptr) observer_->begin(call_);
  }
  ~OpScope() {
    if (observer_ != nullptr) observer_->end(call_);
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  OpObserver* observer_;
  OpCall call_;
};

/// The base of all families of kernels: a name and an observer.
class Family {
 public:
  virtual ~Family() = default;
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

 protected:
  /// `observer` outlives the family; null: none.
  Family(std::string_view name, OpObserver* observer) : name_(name), observer_(observer) {}
  OpScope scope(std::string_view op) const { return {observer_, {name_, op}}; }
  OpScope scope(std::string_view op, LayerProduct product, std::int64_t m, std::int64_t n, std::int64_t k) const {
    return {observer_, {name_, op, product, m, n, k}};
  }

 private:
  std::string_view name_;
  OpObserver* observer_;
};

}  // namespace lockstep::ops
