#include "comm/mpi/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/mpi/mpi_job.h"
#include "comm/mpi/mpi_plugin.h"
#include "comm/mpi/watchdog.h"
#include "io/plugin.h"

namespace lockstep::comm {
namespace {

struct Implementation {
  std::string_view plugin, name, headers, library;  // Debian's packages to build with and to run with
};
constexpr std::array<Implementation, 2> implementations{
    {{"openmpi", "Open MPI", "libopenmpi-dev", "openmpi-bin"}, {"mpich", "MPICH", "libmpich-dev", "mpich"}}};

MpiPlugin& open_mpi(const MpiJob& job) {
  const auto* mpi = std::ranges::find(implementations, job.mpi, &Implementation::plugin);
  if (mpi == implementations.end())
    throw UserError(fmt::format("LOCKSTEP_MPI={}: there is no plugin of this name", job.mpi), "LOCKSTEP_MPI=openmpi or mpich");
  const io::Plugin plugin = io::open_plugin(mpi->plugin);
  if (plugin.object != nullptr) return *static_cast<MpiPlugin*>(plugin.object);
  const std::string mend = plugin.loads
                               ? fmt::format("build again with {} (Debian: {}), or name the plugin's folder in LOCKSTEP_PLUGINS",
                                             mpi->name, mpi->headers)
                               : fmt::format("install {} (Debian: {})", mpi->name, mpi->library);
  throw UserError(fmt::format("{} started {} ranks by {}: {}", job.launcher, job.ranks, mpi->name, plugin.problem),
                  fmt::format("{}; LOCKSTEP_MPI=openmpi or mpich takes the other MPI; --ranks {} without {} starts threads", mend,
                              job.ranks, job.launcher));
}

// One in a process, as the job is.
MpiPlugin& plugin() {
  static MpiPlugin& mpi = open_mpi(find_mpi_job().value_or(MpiJob{}));
  return mpi;
}

// The most bytes of one message. A larger one would not be sent before the receiver has answered (Open MPI over TCP: 64 KiB with
// their head). A rank that computes answers late.
constexpr std::size_t most_bytes = 64000;

class MpiFile final : public io::ByteSource {
 public:
  explicit MpiFile(io::Path path) : path_(std::move(path)) {
    int error = 0;
    file_ = plugin().open_file(path_.c_str(), error);
    if (!file_) io::throw_file_error(error, "read", path_);
  }

  std::uint64_t size() const override { return file_->size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const std::size_t count = file_->read_at(offset, out.first(std::min(most_bytes, out.size())));
      if (count == 0) io::throw_cut_off(path_, offset, out.size());
      out = out.subspan(count);
      offset += count;
    }
  }

 private:
  io::Path path_;
  std::unique_ptr<MpiPlugin::File> file_;
};

/// None where no thread is left for it.
std::unique_ptr<Watchdog> watch(double seconds, std::string says, int exit_code) {
  try {
    return std::make_unique<Watchdog>(seconds, std::move(says), exit_code);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

MpiLibrary::MpiLibrary(double timeout) : timeout_(timeout) {
  const MpiPlugin::Place place = plugin().start();
  rank_ = place.rank;
  size_ = place.size;
}

MpiLibrary::~MpiLibrary() {
  const auto deadline = watch(timeout_, nobody_came(fmt::format("rank {}: the end of MPI", rank_), timeout_), 1);
  plugin().finish();
}

MpiLibrary::Host MpiLibrary::host() const { return plugin().host(rank_); }

void MpiLibrary::broadcast(std::span<std::byte> bytes) const { plugin().broadcast(bytes); }

void MpiLibrary::all_gather(std::span<std::byte> out, std::span<const std::byte> part) const {
  ensure(out.size() == part.size() * static_cast<std::size_t>(size_), "one part from every rank");
  plugin().all_gather(out.data(), part);
}

void MpiLibrary::abort(int exit_code, double seconds) const {
  const auto deadline = watch(seconds, "", exit_code);
  plugin().abort(exit_code);
  std::_Exit(exit_code);
}

std::unique_ptr<io::ByteSource> open_mpi_file(const io::Path& path) { return std::make_unique<MpiFile>(path); }

struct Transfers::State {
  std::unique_ptr<MpiPlugin::Messages> messages = plugin().messages();
  std::vector<int> others;  // of each
};

Transfers::Transfers() : state_(std::make_unique<State>()) {}
Transfers::~Transfers() = default;
Transfers::Transfers(Transfers&& other) noexcept = default;
Transfers& Transfers::operator=(Transfers&& other) noexcept = default;

void Transfers::send(std::span<const std::byte> bytes, int to, int tag) {
  for (std::size_t at = 0; at < bytes.size(); at += most_bytes) {
    state_->messages->send(bytes.subspan(at, std::min(most_bytes, bytes.size() - at)), to, tag);
    state_->others.push_back(to);
  }
}

void Transfers::receive(std::span<std::byte> bytes, int from, int tag) {
  for (std::size_t at = 0; at < bytes.size(); at += most_bytes) {
    state_->messages->receive(bytes.subspan(at, std::min(most_bytes, bytes.size() - at)), from, tag);
    state_->others.push_back(from);
  }
}

bool Transfers::done() {
  const bool all = state_->messages->done();
  if (all) state_->others.clear();
  return all;
}

std::vector<int> Transfers::under_way() const {
  std::set<int> ranks;
  for (std::size_t i = 0; i < state_->others.size(); ++i) {
    if (!state_->messages->has_ended(i)) ranks.insert(state_->others[i]);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace lockstep::comm
