#pragma once

// A pending operation. Move-only; wait() (or the destructor) ends it. A default-made one is already finished.

#include <memory>
#include <utility>

namespace lockstep::comm {

class [[nodiscard]] Request {
 public:
  /// What a transport still has to do.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };

  Request() = default;
  explicit Request(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&&) noexcept = default;
  ~Request() = default;

  /// Blocks until the operation is done. Throws what went wrong with it.
  void wait() {
    if (pending_) std::exchange(pending_, nullptr)->wait();
  }
  bool finished() const { return pending_ == nullptr; }

 private:
  std::unique_ptr<Pending> pending_;
};

}  // namespace lockstep::comm
