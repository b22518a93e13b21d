#include "data/prepare/ordered_work.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::data {
namespace {

class OrderedRun {
 public:
  OrderedRun(std::size_t count, std::size_t slots, const ItemFunction& work, const ItemFunction& deliver)
      : count_(count), failed_(count), ready_(slots, 0), work_(work), deliver_(deliver) {}

  void serve() {
    for (std::size_t item = 0; claim(item);) {
      if (!attempt(work_, item)) return;
      deliver_ready(item);
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::size_t slot(std::size_t item) const { return item % ready_.size(); }

  bool claim(std::size_t& item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || claimed_ == count_ || claimed_ < turn_ + ready_.size(); });
    if (failure_ || claimed_ == count_) return false;
    item = claimed_++;
    return true;
  }

  // No thread waits for its turn: the one that finishes an item delivers what is due, unless another is delivering.
  void deliver_ready(std::size_t item) {
    std::unique_lock lock(mutex_);
    ready_[slot(item)] = 1;
    if (delivering_) return;
    delivering_ = true;
    while (turn_ < failed_ && ready_[slot(turn_)] != 0) {  // items before a failed one are still delivered: one may fail, too
      lock.unlock();
      const bool delivered = attempt(deliver_, turn_);
      lock.lock();
      if (!delivered) break;
      ready_[slot(turn_)] = 0;
      ++turn_;
      changed_.notify_all();
    }
    delivering_ = false;
  }

  // Whether the item came through.
  bool attempt(const ItemFunction& function, std::size_t item) {
    try {
      function(slot(item), item);
      return true;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (item < failed_) {
        failed_ = item;
        failure_ = std::current_exception();
      }
      changed_.notify_all();
      return false;
    }
  }

  std::size_t count_, claimed_ = 0, turn_ = 0, failed_;
  std::vector<char> ready_;  // by slot: its item waits for delivery
  bool delivering_ = false;
  const ItemFunction& work_;
  const ItemFunction& deliver_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace

void run_ordered(std::size_t count, std::size_t threads, std::size_t slots, const ItemFunction& work,
                 const ItemFunction& deliver) {
  OrderedRun run(count, slots, work, deliver);
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < threads && i < count; ++i) helpers.emplace_back([&run] { run.serve(); });
    run.serve();
  }
  run.rethrow();
}

}  // namespace lockstep::data
