#include "app/start/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "app/gpu/certificate.h"
#include "base/error.h"
#include "base/thread.h"
#include "comm/mpi/mpi_world.h"
#include "comm/thread/thread_world.h"
#include "device/choose_device.h"
#include "device/cuda/cuda_runtime.h"
#include "device/topology.h"
#include "ops/open_ops.h"

namespace lockstep::app {
namespace {

void check(const RankOptions& options) {
  std::vector<Problem> problems;
  if (options.ranks < 1 || options.ranks > most_ranks()) {
    problems.push_back(
        {fmt::format("--ranks {}: must be from 1 to {} on this machine", options.ranks, most_ranks()),
         "one rank a core, or a few, is what a machine can use: --ranks 2; lockstep launch --oversubscribe starts more"});
  }
  if (options.threads < 0)
    problems.push_back({fmt::format("--threads {}: must not be negative", options.threads), "--threads 0"});
  if (!problems.empty()) throw UserError(std::move(problems));
}

ops::CpuOptions kernels_of(const RankOptions& options) {
  return {.isa = options.isa, .products = options.products, .bf16 = options.bf16, .plain = options.plain};
}

// What each rank gives, by rank. Collective.
std::vector<std::int32_t> of_all_ranks(std::int32_t mine, comm::Communicator& world) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(world.size()));
  const std::vector<std::int64_t> ones(all.size(), 1);
  world.host().all_gather(view(std::span(all), Shape{world.size()}), view(std::span(&mine, 1), Shape{1}), ones).wait();
  return all;
}

ops::Bf16Order agree_on_bf16(const ops::CpuOptions& asked, comm::Communicator& world) {
  const ops::Bf16Order usual = asked.plain.products ? ops::Bf16Order::widened : ops::usual_bf16_order();
  const ops::Bf16Order mine = asked.bf16 == ops::Bf16Order::automatic ? usual : asked.bf16;
  const std::vector<std::int32_t> all = of_all_ranks(static_cast<std::int32_t>(mine), world);
  return std::ranges::all_of(all, [&](std::int32_t order) { return order == all.front(); }) ? mine : ops::Bf16Order::widened;
}

// The baseline has other bits than the rest (ops/cpu/isa.h), and replicas of a model must have the same. Collective.
AgreedKernels agree_on(const ops::CpuOptions& asked, comm::Communicator& world) {
  AgreedKernels agreed{.kernels = asked, .narrowed = {}};
  const std::vector<std::int32_t> all = of_all_ranks(static_cast<std::int32_t>(ops::resolve(asked.isa)), world);
  const auto least = std::ranges::min_element(all), most = std::ranges::max_element(all);
  agreed.kernels.isa = static_cast<ops::Isa>(*least);
  if (*least != *most) {
    agreed.narrowed = fmt::format(", as rank {} has no wider one (rank {} has {})", least - all.begin(), most - all.begin(),
                                  ops::name_of(static_cast<ops::Isa>(*most)));
  }
  agreed.kernels.bf16 = agree_on_bf16(asked, world);
  return agreed;
}

// The device of a rank. Collective.
Device device_of(const RankOptions& options, const comm::HostPlace& place, comm::Communicator& world) {
  const bool one_host = place.ranks == world.size();
  const bool asks = options.device.empty() && options.takes_gpu && cuda::is_built() && one_host;
  const bool takes = asks && std::ranges::min(of_all_ranks(has_certified_gpu(place.rank) ? 1 : 0, world)) == 1;
  const Device device = choose_device(takes ? "cuda" : options.device, place.rank);
  if (device.kind == DeviceKind::cuda && !one_host)
    throw UserError(
        fmt::format("train.device=cuda: the {} ranks are on several hosts, which cannot exchange what lies on GPUs yet",
                    world.size()),
        "start them all on one host; train.device=cpu computes on the processors");
  return device;
}

// Threads of a rank: its part of `cores`, which `sharing.ranks` ranks have between them, unless the options say.
int threads_of(const RankOptions& options, const std::vector<int>& cores, const comm::CoreSharing& sharing) {
  if (options.threads > 0) return static_cast<int>(options.threads);
  if (sharing.ranks > std::ssize(cores)) return 1;
  return static_cast<int>(share_of_cores(cores, sharing.rank, sharing.ranks).size());
}

// Servers and the others each divide the cores among themselves. Where not all ranks have the same cores, they all divide them.
comm::CoreSharing without_servers(const RankOptions& options, const comm::Communicator& world, const comm::CoreSharing& sharing) {
  const int servers = static_cast<int>(options.servers), others = world.size() - servers;
  if (servers == 0 || others < 1 || sharing.ranks != world.size()) return sharing;
  return sharing.rank < others ? comm::CoreSharing{sharing.rank, others} : comm::CoreSharing{sharing.rank - others, servers};
}

// Runs the body on one of `place.cores.ranks` ranks of this host, which have `cores` between them.
void run_rank(const RankOptions& options, comm::Communicator& world, Transport transport, const std::vector<int>& cores,
              const comm::HostPlace& place, const std::function<void(Session&)>& body) {
  const comm::CoreSharing sharing = without_servers(options, world, place.cores);
  const std::vector<int> share = share_of_cores(cores, sharing.rank, sharing.ranks);
  const ScopedCores scoped(share);
  const std::unique_ptr<comm::Communicator> around = options.around ? options.around(world) : nullptr;
  const int threads = threads_of(options, cores, sharing);
  Session session(threads, kernels_of(options), around ? *around : world, transport, device_of(options, place, world),
                  sharing.ranks > std::ssize(cores) || threads > std::ssize(share));
  body(session);
}

// Rank 0 prepares, however long that takes. Meanwhile it tells the others that it is alive, so that they do not take it for one
// that is not. Collective.
void prepare_on_lead(const std::function<void()>& prepare, comm::Communicator& world, double timeout) {
  std::exception_ptr error;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::optional<std::jthread> work;
  if (world.rank() == 0) {
    work = start_thread("prepare", [&](const std::stop_token&) {
      try {
        prepare();
      } catch (...) {
        error = std::current_exception();
      }
      const std::scoped_lock lock(mutex);
      ended = true;
      changed.notify_one();
    });
  }
  for (std::int32_t prepared = 0; prepared == 0;) {
    if (work) {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, std::chrono::duration<double>(std::min(1.0, timeout / 4)), [&] { return ended; });
      prepared = ended ? 1 : 0;
    }
    if (prepared != 0 && error) std::rethrow_exception(error);
    world.host().broadcast(view(std::span(&prepared, 1), Shape{1}), 0).wait();
  }
}

void run_on_processes(const RankOptions& options, const comm::MpiJob& job, const std::function<void(Session&)>& body) {
  if (options.ranks != 1) {
    throw UserError(fmt::format("--ranks {} under {}, which has started {} ranks", options.ranks, job.launcher, job.ranks),
                    fmt::format("leave out --ranks, or start the program without {}", job.launcher));
  }
  comm::run_mpi(job, {.timeout = options.timeout, .threads = static_cast<int>(options.threads)},
                [&](comm::Communicator& world, const comm::HostPlace& place) {
                  if (options.prepare) prepare_on_lead(options.prepare, world, options.timeout);
                  run_rank(options, world, Transport::mpi, neighbouring_cores(), place, body);
                });
}

}  // namespace

std::string_view name_of(Transport transport) {
  constexpr std::array<std::string_view, 3> names{"self", "thread", "mpi"};
  return names.at(static_cast<std::size_t>(transport));
}

Session::Session(int threads, const ops::CpuOptions& kernels, comm::Communicator& world, Transport transport,
                 const Device& device, bool crowded)
    : world_(world),
      transport_(transport),
      crowded_(crowded),
      agreed_(agree_on(kernels, world)),
      runtime_(open_runtime(device, {.threads = threads})),
      stream_(runtime_->make_stream()) {
  world_.attach(*stream_, team());
  if (device.kind == DeviceKind::cuda) certified_ = note_on_gpu(device.index);
}

ops::Ops& Session::ops() {
  if (!ops_) ops_ = make_ops(nullptr);
  return *ops_;
}

std::unique_ptr<ops::Ops> Session::make_ops(ops::OpObserver* observer, std::optional<ops::Bf16Order> order) const {
  ops::CpuOptions kernels = agreed_.kernels;
  kernels.bf16 = order.value_or(kernels.bf16);
  return ops::make_ops(*runtime_, *stream_, {.cpu = kernels, .observer = observer});
}

std::string Session::description() const {
  return runtime_->description() + certified_ + fmt::format(", kernels for {}{}", ops::name_of(isa()), agreed_.narrowed);
}

std::int64_t most_ranks() { return std::max<std::int64_t>(64, std::int64_t{16} * std::thread::hardware_concurrency()); }

void run_on_ranks(const RankOptions& options, const std::function<void(Session&)>& body) {
  check(options);
  if (const auto job = comm::find_mpi_job()) return run_on_processes(options, *job, body);
  if (options.prepare) options.prepare();
  const int ranks = static_cast<int>(options.ranks);
  if (ranks == 1) {
    const std::unique_ptr<comm::Communicator> alone = comm::make_self();
    Session session(static_cast<int>(options.threads), kernels_of(options), *alone, Transport::self,
                    device_of(options, {}, *alone));
    return body(session);
  }
  const std::vector<int> cores = neighbouring_cores();
  comm::run_ranks(ranks, {.timeout = options.timeout, .threads = threads_of(options, cores, {0, ranks})},
                  [&](comm::Communicator& world) {
                    const comm::CoreSharing sharing{world.rank(), ranks};
                    run_rank(options, world, Transport::thread, cores, {world.rank(), ranks, sharing}, body);
                  });
}

RankCount rank_count(const std::optional<std::int64_t>& asked) {
  if (const auto job = comm::find_mpi_job()) return {asked.value_or(1), job->ranks};
  const std::int64_t ranks = asked ? *asked : std::ssize(neighbouring_cores());
  return {ranks, ranks};
}

}  // namespace lockstep::app
