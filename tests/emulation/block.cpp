#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "block_state.h"
#include "cuda_runtime.h"
#include "random.h"
#include "tally.h"

namespace lockstep::emulation {
namespace {

constexpr std::size_t spare_fibers = 64, most_threads = 1024;

bool same(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace

std::string text(const Place& at) { return std::string(at.file_name()) + ":" + std::to_string(at.line()); }

Lot& lot() {
  static Lot one;
  return one;
}
Counts& tally() {
  static Counts one{};
  return one;
}
Block& block() {
  static Block one;
  return one;
}

Block::Block() {
  fibers_.reserve(most_threads + spare_fibers);
  threads_.reserve(most_threads);
  ready_.reserve(most_threads);
  warps_.resize(most_threads / 32);
  for (Warp& warp : warps_) warp.open.reserve(32);
}

void Block::prepare(dim3 shape) {
  count_ = static_cast<int>(shape.x * shape.y * shape.z);
  const auto count = static_cast<std::size_t>(count_);
  while (fibers_.size() < count + spare_fibers) fibers_.push_back(Fiber::with_stack());
  if (threads_.size() < count) threads_.resize(count);
  lot().shuffle(fibers_);
  for (Warp& warp : warps_) warp.open.clear();
  ready_.clear();
  waiting_ = left_ = 0;
  failed_ = false;
  choose_last_warp();
  for (std::size_t i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    const auto n = static_cast<unsigned>(i);
    thread.index = {n % shape.x, n / shape.x % shape.y, n / shape.x / shape.y};
    thread.barriers = thread.meetings = thread.groups = 0;
    thread.first_copy = thread.next_copy = 0;
    fibers_[i].begin(begin_thread);
    make_ready(static_cast<int>(i));
  }
}

bool Block::run(dim3 shape, const std::function<void()>& body, std::byte* shared, std::size_t shared_bytes, void* begins,
                void* ends) {
  prepare(shape);
  body_ = &body;
  shared_ = shared;
  shared_bytes_ = shared_bytes;
  begins_ = begins;
  ends_ = ends;
  host_.adopt();
  running_ = true;
  go_on(host_);
  running_ = false;
  if (!failed_) return true;
  for (int i = 0; i < count_; ++i) {  // none of them comes to its end
    const AsFiber as_thread(fibers_[static_cast<std::size_t>(i)]);
    release(ends_);
  }
  acquire(ends_);
  why_ += where_threads_are();
  return false;
}

void Block::begin_thread() {
  Block& b = block();
  acquire(b.begins_);
  (*b.body_)();
  release(b.ends_);
  b.thread().state = Thread::State::left;
  ++b.left_;
  b.go_on(b.fibers_[static_cast<std::size_t>(b.current_)]);
  std::abort();
}

void Block::make_ready(int thread) {
  threads_[static_cast<std::size_t>(thread)].state = Thread::State::ready;
  ready_.push_back(thread);
}

// By lot one warp comes last until the next barrier, so that the others get as far ahead of it as they can.
void Block::choose_last_warp() {
  last_warp_ = lot().draw(2) == 0 ? none : static_cast<int>(lot().draw(static_cast<std::uint64_t>(count_ + 31) / 32));
}

std::size_t Block::one_that_is_ready() {
  const std::size_t count = ready_.size(), first = lot().draw(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (first + i) % count;
    if (ready_[at] / 32 != last_warp_) return at;
  }
  return first;
}

// Some thread that can go on does; where there is none, the host.
void Block::go_on(Fiber& from) {
  if (failed_ || ready_.empty()) {
    if (!failed_ && left_ < count_) {
      failed_ = true;
      why_ = "threads wait for each other";
    }
    ++tally().switches;
    Fiber::jump(from, host_);
    return;
  }
  std::swap(ready_[one_that_is_ready()], ready_.back());
  current_ = ready_.back();
  ready_.pop_back();
  threadIdx = thread().index;
  Fiber& next = fibers_[static_cast<std::size_t>(current_)];
  if (&next == &from) return;
  ++tally().switches;
  Fiber::jump(from, next);
}

void Block::fail(const std::string& why) {
  if (!failed_) why_ = why;
  failed_ = true;
  go_on(fibers_[static_cast<std::size_t>(current_)]);
  std::abort();
}

std::string Block::where_threads_are() const {
  std::map<std::string, int> places;
  for (int i = 0; i < count_; ++i) {
    const Thread& thread = threads_[static_cast<std::size_t>(i)];
    switch (thread.state) {
      case Thread::State::ready:
        ++places["can go on"];
        break;
      case Thread::State::left:
        ++places["left"];
        break;
      case Thread::State::at_barrier:
        ++places["at the barrier " + text(thread.at)];
        break;
      case Thread::State::in_meeting:
        ++places["in the warp's meeting " + text(thread.at)];
        break;
    }
  }
  std::string result;
  for (const auto& [place, threads] : places) result += "; threads that are " + place + ": " + std::to_string(threads);
  return result;
}

void Block::barrier(Place at) {
  ++tally().barriers;
  Thread& me = thread();
  if (waiting_ == 0) barrier_at_ = at;
  me.at = at;
  if (!same(barrier_at_, at)) fail("threads are at different barriers, " + text(barrier_at_) + " and " + text(at));
  if (left_ > 0) fail("threads have left, others come to the barrier " + text(at));
  // Two marks in turn: a thread that leaves late must not learn what others did behind the barrier.
  char* mark = &barrier_marks_[me.barriers++ % 2];
  release(mark);
  const int my = current_;
  if (++waiting_ == count_) {
    waiting_ = 0;
    choose_last_warp();
    for (int i = 0; i < count_; ++i) make_ready(i);
  } else {
    me.state = Thread::State::at_barrier;
  }
  go_on(fibers_[static_cast<std::size_t>(my)]);
  acquire(mark);
}

Meeting& Block::come_to_meeting(unsigned mask, Deliver deliver, Place at) {
  const int first = current_ - lane();
  if ((mask >> lane() & 1U) == 0) fail("a lane is not in the mask that it gives, " + text(at));
  if (first + 32 > count_ && mask >> (count_ - first) != 0) fail("a mask names lanes that the block does not have, " + text(at));
  std::vector<Meeting>& open = warps_[static_cast<std::size_t>(current_ / 32)].open;
  for (Meeting& meeting : open) {
    if (meeting.mask != mask || meeting.deliver != deliver || !same(meeting.at, at)) continue;
    meeting.arrived |= 1U << lane();
    return meeting;
  }
  return open.emplace_back(Meeting{mask, 1U << lane(), deliver, at});
}

const void* Block::meet(unsigned mask, const void* given, std::size_t bytes, Deliver deliver, Place at, bool orders_memory) {
  ++tally().meetings;
  Thread& me = thread();
  Warp& warp = warps_[static_cast<std::size_t>(current_ / 32)];
  const int my = current_, my_lane = lane();
  me.at = at;
  Meeting& meeting = come_to_meeting(mask, deliver, at);
  copy_unseen(warp.lanes[my_lane].given, given, bytes);
  char* mark = &warp.marks[me.meetings % 2];
  if (orders_memory) {
    ++me.meetings;
    release(mark);
  }
  if (meeting.arrived == mask) {
    meeting = warp.open.back();
    warp.open.pop_back();
    if (deliver != nullptr) deliver(warp.lanes, mask);
    for (int i = 0; i < 32; ++i) {
      if ((mask >> i & 1U) != 0) make_ready(my - my_lane + i);
    }
  } else {
    me.state = Thread::State::in_meeting;
  }
  go_on(fibers_[static_cast<std::size_t>(my)]);
  if (orders_memory) acquire(mark);
  return warp.lanes[my_lane].taken;
}

void* Block::shared(std::size_t bytes, Place at) {
  if (bytes > shared_bytes_) {
    fail("shared memory of " + std::to_string(bytes) + " bytes is used, the launch asked for " + std::to_string(shared_bytes_) +
         ", " + text(at));
  }
  return shared_;
}

// A loop over volatile words is no memcpy(), which ThreadSanitizer looks at.
void copy_unseen(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<volatile unsigned*>(to);
  const auto* in = static_cast<const volatile unsigned*>(from);
  for (std::size_t i = 0; i < bytes / sizeof *in; ++i) out[i] = in[i];
  for (std::size_t i = bytes / sizeof *in * sizeof *in; i < bytes; ++i)
    static_cast<volatile std::byte*>(to)[i] = static_cast<const volatile std::byte*>(from)[i];
}

// What device code calls.
void barrier(Place at) { block().barrier(at); }
const void* meet(unsigned mask, const void* given, std::size_t bytes, Deliver deliver, Place at) {
  return block().meet(mask, given, bytes, deliver, at, false);
}
void warp_barrier(unsigned mask, Place at) { block().meet(mask, nullptr, 0, nullptr, at, true); }
int lane() { return block().lane(); }
bool copy_now() { return lot().draw(2) == 0; }
void copy_later(void* to, const void* from) {
  Thread& me = block().thread();
  if (me.next_copy - me.first_copy == Thread::most_copies)
    block().fail("a thread has more than 64 copies that it did not wait for");
  me.copies[me.next_copy++ % Thread::most_copies] = {to, from, me.groups};
}
void commit_copies() { ++block().thread().groups; }
bool copy_due(unsigned open, void*& to, const void*& from) {
  Thread& me = block().thread();
  if (me.first_copy == me.next_copy) return false;
  const Thread::Copy& copy = me.copies[me.first_copy % Thread::most_copies];
  if (copy.group + open >= me.groups) return false;
  to = copy.to;
  from = copy.from;
  ++me.first_copy;
  return true;
}
void* dynamic_shared(std::size_t bytes, Place at) { return block().shared(bytes, at); }
void fail(const char* why, Place at) { block().fail(why + (", " + text(at))); }

}  // namespace lockstep::emulation
