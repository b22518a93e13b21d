#include "app/session.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "device/cpu/topology.h"

namespace lockstep::app {
namespace {

constexpr std::int64_t most_ranks = 1024;

void check(const RankOptions& options) {
  std::vector<Problem> problems;
  if (options.ranks < 1 || options.ranks > most_ranks) {
    problems.push_back({fmt::format("--ranks {}: must be from 1 to {}", options.ranks, most_ranks),
                        "one rank a core, or a few, is what a machine can use: --ranks 2"});
  }
  if (options.threads < 0)
    problems.push_back({fmt::format("--threads {}: must not be negative", options.threads), "--threads 0"});
  if (!problems.empty()) throw UserError(std::move(problems));
}

}  // namespace

Session::Session(int threads, ops::Isa isa, comm::Communicator& world)
    : isa_(isa == ops::Isa::automatic ? ops::available_isas().front() : isa),
      runtime_(open_runtime({}, {.threads = threads})),
      stream_(runtime_->make_stream()),
      ops_(ops::make_ops(*runtime_, *stream_, {.isa = isa})),
      world_(world) {
  world_.attach(*stream_, team());
}

void run_on_ranks(const RankOptions& options, const std::function<void(Session&)>& body) {
  check(options);
  const int ranks = static_cast<int>(options.ranks);
  if (ranks == 1) {
    const std::unique_ptr<comm::Communicator> alone = comm::make_self();
    Session session(static_cast<int>(options.threads), options.isa, *alone);
    return body(session);
  }
  const std::vector<int> cores = cpu::neighbouring_cores();
  const int share = static_cast<int>(cpu::share_of_cores(cores, 0, ranks).size());
  const int threads = options.threads > 0 ? static_cast<int>(options.threads) : ranks > std::ssize(cores) ? 1 : share;
  comm::run_ranks(ranks, {.timeout = options.timeout, .threads = threads}, [&](comm::Communicator& world) {
    const std::vector<int> mine = cpu::share_of_cores(cores, world.rank(), ranks);
    const cpu::ScopedCores scoped(mine);
    const bool crowded = ranks > std::ssize(cores);
    const auto own = options.threads > 0 ? static_cast<int>(options.threads) : crowded ? 1 : static_cast<int>(mine.size());
    Session session(own, options.isa, world);
    body(session);
  });
}

}  // namespace lockstep::app
