#pragma once

// Streams whose work is done when somebody waits for it, as late as can be. Which of them goes on is drawn by lot. Until a copy
// is done, its destination in host memory holds NaN. A change of either side by the host before that is an error.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "device/stream.h"

namespace lockstep::support {

/// The streams of a device, and the work on them.
class LateWork {
 public:
  /// Memory that the host cannot reach opens and closes around each piece of work.
  struct Gate {
    std::function<void()> open, close;
    std::function<bool(const std::byte*)> is_far;
  };
  explicit LateWork(Gate gate) : gate_(std::move(gate)) {}

  /// Host memory that a copy reads or writes.
  struct Side {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool writes = false, known = false;
    std::size_t print = 0;
  };
  struct Piece {
    std::function<void()> run;
    Side sides[2];
    const int* waits = nullptr;  ///< the work waits until this is at least `number`
    int number = 0;
  };
  using Queue = std::deque<Piece>;

  void add(Queue& queue) { queues_.push_back(&queue); }
  void remove(Queue& queue) {
    finish(queue);
    std::erase(queues_, &queue);
  }
  /// Does work until the stream has nothing left to do.
  void finish(const Queue& queue) {
    while (!queue.empty()) step();
  }
  void finish_all() {
    for (const Queue* queue : queues_) finish(*queue);
  }
  /// A copy's side, before it is issued.
  Side side_of(std::byte* data, std::size_t bytes, bool writes) {
    Side side{data, bytes, writes};
    if (gate_.is_far(data)) return {};
    side.known = !is_in_use(side);
    if (!side.known) return side;
    if (writes) std::memset(data, 0xff, bytes);  // NaN
    side.print = print_of(side);
    return side;
  }

 private:
  static std::size_t print_of(const Side& side) {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(side.data), side.bytes});
  }
  // What is to be written has no known bytes yet, and what is to be read may not be poisoned.
  bool is_in_use(const Side& side) const {
    return std::ranges::any_of(queues_, [&](const Queue* queue) {
      return std::ranges::any_of(*queue, [&](const Piece& piece) {
        return std::ranges::any_of(piece.sides, [&](const Side& other) {
          return (side.writes || other.writes) && side.data < other.data + other.bytes && other.data < side.data + side.bytes;
        });
      });
    });
  }
  void step() {
    std::vector<Queue*> ready;
    for (Queue* queue : queues_) {
      if (!queue->empty() && (queue->front().waits == nullptr || *queue->front().waits >= queue->front().number))
        ready.push_back(queue);
    }
    if (ready.empty()) throw std::logic_error("streams wait for each other");
    Queue& queue = *ready[lot_() % ready.size()];
    const Piece piece = std::move(queue.front());
    queue.pop_front();
    for (const Side& side : piece.sides) {
      if (side.known && print_of(side) != side.print) {
        throw std::logic_error("the host changed " + std::to_string(side.bytes) + " bytes that a copy was to " +
                               (side.writes ? "write" : "read") + ": it did not wait for the stream");
      }
    }
    gate_.open();
    piece.run();
    gate_.close();
  }

  Gate gate_;
  std::vector<Queue*> queues_;
  std::minstd_rand lot_{1};
};

class LateEvent final : public Event {
 public:
  /// Records that were issued; those that were done are counted where waits keep them.
  int issued = 0;
  std::shared_ptr<int> done = std::make_shared<int>(0);
};

class LateStream final : public Stream {
 public:
  explicit LateStream(LateWork& work) : work_(work) { work_.add(queue_); }
  ~LateStream() override { work_.remove(queue_); }
  LateStream(const LateStream&) = delete;
  LateStream& operator=(const LateStream&) = delete;

  std::unique_ptr<Event> make_event() override { return std::make_unique<LateEvent>(); }
  void record(Event& event) override {
    auto& late = dynamic_cast<LateEvent&>(event);
    queue_.push_back({[done = late.done, number = ++late.issued] { *done = std::max(*done, number); }, {}});
  }
  void wait(const Event& event) override {
    const auto& late = dynamic_cast<const LateEvent&>(event);
    queue_.push_back({[done = late.done] {}, {}, late.done.get(), late.issued});
  }
  void synchronize() override {
    progress();
    finish();
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (to == from || bytes == 0) return;
    const LateWork::Side read = work_.side_of(const_cast<std::byte*>(from), bytes, false);
    const LateWork::Side written = work_.side_of(to, bytes, true);
    queue_.push_back({[=] { std::memcpy(to, from, bytes); }, {read, written}});
  }
  /// Does all work that was issued. Kernels come behind it.
  void finish() { work_.finish(queue_); }

 private:
  LateWork& work_;
  LateWork::Queue queue_;
};

}  // namespace lockstep::support
