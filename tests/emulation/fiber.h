#pragma once

// Threads of a block as fibers of one host thread: a stack each, and a switch of some nanoseconds. x86-64 alone.

#include <cstddef>

namespace lockstep::emulation {

class Fiber {
 public:
  /// The host's own fiber, which has the stack of the host thread.
  Fiber() = default;
  Fiber(Fiber&&) noexcept;
  Fiber& operator=(Fiber&&) noexcept;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// A fiber with a stack of its own, above a guard page. Throws std::bad_alloc.
  static Fiber with_stack();
  /// The next jump to it begins `entry`, which must not return.
  void begin(void (*entry)());
  /// Leaves `from`, which must be the running fiber, for `to`. ThreadSanitizer learns that another fiber runs, and no order.
  static void jump(Fiber& from, Fiber& to);
  /// Makes a fiber without a stack the one that runs, as ThreadSanitizer sees it.
  void adopt();
  /// A fiber without a stack, for AsFiber.
  static Fiber without_stack();
  /// Whether the address is of the guard page.
  bool guards(const std::byte* address) const;

 private:
  friend class AsFiber;
  void* stack_pointer_ = nullptr;
  std::byte* stack_ = nullptr;
  void* sanitizer_ = nullptr;
  bool owned_ = false;  ///< ThreadSanitizer's handle of the fiber
};

/// While it lives, ThreadSanitizer takes what the caller does for the work of another fiber.
class AsFiber {
 public:
  explicit AsFiber(const Fiber& fiber);
  ~AsFiber();
  AsFiber(const AsFiber&) = delete;
  AsFiber& operator=(const AsFiber&) = delete;

 private:
  void* before_ = nullptr;
};

/// Tells ThreadSanitizer, if it is linked, an order: all that was done before a release is seen behind the acquire of the same
/// mark.
void release(const void* mark);
void acquire(const void* mark);
/// Forgets which threads touched these bytes.
void forget(void* data, std::size_t bytes);

}  // namespace lockstep::emulation
