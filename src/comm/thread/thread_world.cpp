#include "comm/thread/thread_world.h"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread.h"
#include "comm/errors.h"
#include "comm/host/host_communicator.h"
#include "comm/host/staging.h"
#include "device/memory.h"

namespace lockstep::comm {
namespace {

/// One address space: a token is an address.
class ProcessMemory final : public host::SharedMemory {
 public:
  std::uint64_t token(const std::byte* address) const override { return reinterpret_cast<std::uint64_t>(address); }
  std::byte* find(int, std::uint64_t token) const override {
    return reinterpret_cast<std::byte*>(token);  // NOLINT(performance-no-int-to-ptr): what token() made of a pointer
  }
  std::byte* allocate(std::size_t bytes) override {
    const std::scoped_lock lock(mutex_);
    return memories_.emplace_back(host_memory().allocate(bytes)).data();
  }

 private:
  std::mutex mutex_;
  std::vector<Memory> memories_;
};

class ThreadWorld {
 public:
  ThreadWorld(int ranks, const ThreadWorldOptions& options)
      : ranks_(ranks),
        options_(options),
        crowded_(static_cast<unsigned>(ranks * options.threads) > std::thread::hardware_concurrency()),
        board_(memory_.allocate(host::Board::bytes(ranks)), ranks),
        roll_(memory_.allocate(host::Roll::bytes(ranks)), ranks) {
    for (int r = 0; r < ranks; ++r) members_.push_back(r);
  }

  void run(const std::function<void(Communicator&)>& body) {
    {
      std::vector<std::jthread> threads;
      if (start_others(threads, body)) run_rank(0, body);
    }
    if (error_) std::rethrow_exception(error_);
    if (aborted_) std::rethrow_exception(aborted_);
  }

 private:
  // False when a thread cannot be started: the run ends before all ranks have come.
  bool start_others(std::vector<std::jthread>& threads, const std::function<void(Communicator&)>& body) {
    int rank = 1;
    try {
      for (; rank < ranks_; ++rank) {
        threads.push_back(
            start_thread(fmt::format("rank-{}", rank), [this, rank, &body](const std::stop_token&) { run_rank(rank, body); }));
      }
      return true;
    } catch (const std::exception& error) {
      for (; rank < ranks_; ++rank) fail(rank, error.what());
      roll_.set(0, host::Phase::failed);
      return false;
    }
  }

  void run_rank(int rank, const std::function<void(Communicator&)>& body) noexcept {
    host::Staging staging(memory_, host_memory());
    host::Rank context{
        .number = rank, .roll = roll_, .memory = memory_, .timeout = options_.timeout, .crowded = crowded_, .staging = &staging};
    try {
      host::HostCommunicator world(context, "world", board_, members_, rank);
      body(world);
      roll_.set(rank, host::Phase::finished);
    } catch (const RunAborted&) {
      roll_.set(rank, host::Phase::failed);
      keep(aborted_, std::current_exception());
    } catch (const std::exception& error) {
      fail(rank, error.what());
    } catch (...) {
      fail(rank, "an unknown error");
    }
  }

  void fail(int rank, const std::string& what) {
    keep(error_, std::current_exception());
    roll_.abort(fmt::format("rank {} ended with an error: {}", rank, what));
    roll_.set(rank, host::Phase::failed);
  }

  void keep(std::exception_ptr& place, std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (!place) place = std::move(error);
  }

  int ranks_;
  ThreadWorldOptions options_;
  bool crowded_;
  ProcessMemory memory_;
  host::Board board_;
  host::Roll roll_;
  std::vector<int> members_;
  std::mutex mutex_;
  std::exception_ptr error_, aborted_;
};

}  // namespace

void run_ranks(int ranks, const ThreadWorldOptions& options, const std::function<void(Communicator&)>& body) {
  ensure(ranks >= 1, "there is at least one rank");
  ThreadWorld(ranks, options).run(body);
}

}  // namespace lockstep::comm
