#pragma once

// A block of threads while it runs: which fiber is which thread, and which thread waits for which others.

#include <functional>
#include <string>
#include <vector>

#include "emulation/block.h"
#include "fiber.h"
#include "vector_types.h"

namespace lockstep::emulation {

struct Thread {
  enum class State : unsigned char { ready, at_barrier, in_meeting, left };
  struct Copy {
    void* to;
    const void* from;
    unsigned group;
  };

  uint3 index{};
  State state = State::ready;
  Place at;
  unsigned barriers = 0, meetings = 0;
  static constexpr unsigned most_copies = 64;
  Copy copies[most_copies];  ///< a ring of those that are not done
  unsigned first_copy = 0, next_copy = 0;
  unsigned groups = 0;  ///< groups of copies that were committed
};

/// Lanes of a warp that wait for the others of their mask.
struct Meeting {
  unsigned mask, arrived;
  Deliver deliver;
  Place at;
};

struct Warp {
  std::vector<Meeting> open;  ///< a lane is in one at most
  char marks[2];              ///< ThreadSanitizer's
  Lane lanes[32];
};

/// The block that runs. Blocks run one after the other, on the host thread that holds the lock of the emulation.
class Block {
 public:
  Block();
  /// Runs `body` on so many threads. False: the block cannot go on, and why() tells.
  bool run(dim3 shape, const std::function<void()>& body, std::byte* shared, std::size_t shared_bytes, void* begins, void* ends);
  const std::string& why() const { return why_; }
  /// Whether a thread runs now; which, and whether `address` lies below its stack.
  bool running() const { return running_; }
  uint3 index() const { return threads_[static_cast<std::size_t>(current_)].index; }
  bool is_below_stack(const std::byte* address) const { return fibers_[static_cast<std::size_t>(current_)].guards(address); }

  void barrier(Place at);
  const void* meet(unsigned mask, const void* given, std::size_t bytes, Deliver deliver, Place at, bool orders_memory);
  int lane() const { return current_ % 32; }
  Thread& thread() { return threads_[static_cast<std::size_t>(current_)]; }
  void* shared(std::size_t bytes, Place at);
  [[noreturn]] void fail(const std::string& why);

 private:
  static void begin_thread();
  void prepare(dim3 shape);
  void choose_last_warp();
  std::size_t one_that_is_ready();
  void go_on(Fiber& from);
  void make_ready(int thread);
  Meeting& come_to_meeting(unsigned mask, Deliver deliver, Place at);
  std::string where_threads_are() const;

  // Nothing grows while threads run: ThreadSanitizer would take the memory for theirs.
  std::vector<Fiber> fibers_;  ///< more than threads, so that a small block runs on other fibers from time to time
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<int> ready_;
  Fiber host_;
  static constexpr int none = -1;
  int count_ = 0, current_ = 0, waiting_ = 0, left_ = 0, last_warp_ = none;
  bool running_ = false, failed_ = false;
  Place barrier_at_;
  char barrier_marks_[2];
  const std::function<void()>* body_ = nullptr;
  std::byte* shared_ = nullptr;
  std::size_t shared_bytes_ = 0;
  void *begins_ = nullptr, *ends_ = nullptr;
  std::string why_;
};

Block& block();

}  // namespace lockstep::emulation
