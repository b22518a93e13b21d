#include "data/ordered_work.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::data {
namespace {

class OrderedRun {
 public:
  OrderedRun(std::size_t count, const ItemFunction& work, const ItemFunction& deliver)
      : count_(count), failed_(count), work_(work), deliver_(deliver) {}

  void serve(std::size_t worker) {
    for (std::size_t item = 0; claim(item);) {
      try {
        work_(worker, item);
        if (!wait_for_turn(item)) return;
        deliver_(worker, item);
      } catch (...) {
        return fail(item);
      }
      const std::lock_guard lock(mutex_);
      turn_ = item + 1;
      changed_.notify_all();
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  bool claim(std::size_t& item) {
    const std::lock_guard lock(mutex_);
    if (failure_ || claimed_ == count_) return false;
    item = claimed_++;
    return true;
  }

  bool wait_for_turn(std::size_t item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == item || item > failed_; });
    return turn_ == item;
  }

  // Items before the failed one still get their turn: one of them may fail, too.
  void fail(std::size_t item) {
    const std::lock_guard lock(mutex_);
    if (item < failed_) {
      failed_ = item;
      failure_ = std::current_exception();
    }
    changed_.notify_all();
  }

  std::size_t count_, claimed_ = 0, turn_ = 0, failed_;
  const ItemFunction& work_;
  const ItemFunction& deliver_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace

void run_ordered(std::size_t count, std::size_t threads, const ItemFunction& work, const ItemFunction& deliver) {
  OrderedRun run(count, work, deliver);
  {
    std::vector<std::jthread> helpers;
    for (std::size_t worker = 1; worker < threads && worker < count; ++worker) {
      helpers.emplace_back([&run, worker] { run.serve(worker); });
    }
    run.serve(0);
  }
  run.rethrow();
}

}  // namespace lockstep::data
