#include <fmt/format.h>
#include <liburing.h>

#include <cerrno>
#include <system_error>

#include "base/checked.h"
#include "base/error.h"
#include "io/uring/ring.h"

namespace lockstep::io {
namespace {

class KernelRing final : public Ring {
 public:
  ~KernelRing() override {
    if (made_) io_uring_queue_exit(&ring_);
  }
  /// 0, or the errno of a kernel that refuses.
  int make(unsigned moves) {
    const int code = -io_uring_queue_init(moves, &ring_, 0);
    made_ = code == 0;
    return code;
  }
  void submit(const Move& move) override {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    ensure(entry != nullptr, "no more moves are under way than the ring was made for");
    const auto bytes = narrow<unsigned>(move.bytes);
    if (move.writes) {
      io_uring_prep_write(entry, move.descriptor, move.data, bytes, move.offset);
    } else {
      io_uring_prep_read(entry, move.descriptor, move.data, bytes, move.offset);
    }
    io_uring_sqe_set_data64(entry, static_cast<std::uint64_t>(move.number));
    int taken = io_uring_submit(&ring_);
    while (taken == -EINTR || taken == -EAGAIN) taken = io_uring_submit(&ring_);
    if (taken < 0) throw SystemError(fmt::format("io_uring refused: {}", std::generic_category().message(-taken)));
  }
  Done wait() override {
    io_uring_cqe* entry = nullptr;
    int code = io_uring_wait_cqe(&ring_, &entry);
    while (code == -EINTR || code == -EAGAIN) code = io_uring_wait_cqe(&ring_, &entry);
    if (code < 0) throw SystemError(fmt::format("io_uring does not answer: {}", std::generic_category().message(-code)));
    const Done done{static_cast<int>(io_uring_cqe_get_data64(entry)), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return done;
  }

 private:
  io_uring ring_{};
  bool made_ = false;
};

}  // namespace

RingChoice make_ring(unsigned moves) {
  auto ring = std::make_unique<KernelRing>();
  if (const int code = ring->make(moves); code != 0) return {nullptr, std::generic_category().message(code)};
  return {std::move(ring), {}};
}

}  // namespace lockstep::io
