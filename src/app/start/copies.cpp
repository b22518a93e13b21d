#include "app/start/copies.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "app/cli/process.h"
#include "base/units.h"
#include "checkpoint/copies/restore.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "io/checksum.h"
#include "io/space.h"

namespace lockstep::app {
namespace {

constexpr const char* shared_memory = "/dev/shm";

io::Path folder_of_copies(const io::Path& run) {
  const std::string whose = fmt::format("{} {}", ::geteuid(), io::whole_path(run).string());
  const std::uint64_t name = io::checksum(std::as_bytes(std::span(whose)), 1, 0);
  return io::Path(shared_memory) / fmt::format("lockstep-copies-{:016x}", name);
}

std::size_t count_hosts(const std::vector<std::string>& names) { return std::set(names.begin(), names.end()).size(); }

}  // namespace

train::CopyPlace copy_place(const io::Path& run, comm::Communicator& ranks) {
  return {folder_of_copies(run), comm::all_texts(ranks, host_name())};
}

std::string describe(const train::CopyPlace& place) {
  const std::size_t hosts = count_hosts(place.hosts);
  return fmt::format("Copies:   in {} from the first checkpoint on; {}", place.folder.string(),
                     hosts == 1 ? "with one host they outlive its ranks, and not the host"
                                : fmt::format("of {} hosts each has its own ranks' and those of the host before", hosts));
}

bool bring_copies(const io::Path& run, const checkpoint::Choice& last, Session& session, Log& log) {
  const io::Path place = folder_of_copies(run);
  const checkpoint::FoundCopies found = checkpoint::restore_copies(session.world(), place, run, last, session.team());
  for (const std::string& why : found.ignored) log.warning(why);
  if (found.restored) {
    log.info(fmt::format("Copies in memory are newer than the checkpoint of step {}: {} is written from them ({}, {})",
                         last.manifest.step, found.restored->folder.string(), format_bytes(found.restored->bytes),
                         format_seconds(found.restored->durable_seconds)));
  }
  clear_copies(run, session.world());
  return found.restored.has_value();
}

void clear_copies(const io::Path& run, comm::Communicator& world) {
  const std::vector<std::string> hosts = comm::all_texts(world, host_name());
  comm::together(world, [&] {
    const bool first = std::ranges::find(hosts, host_name()) - hosts.begin() == world.rank();
    if (first) checkpoint::remove_copies(folder_of_copies(run));
  });
}

std::optional<Problem> lacks_room_for_copies(std::int64_t bytes, comm::Communicator& world) {
  const std::vector<std::string> hosts = comm::all_texts(world, host_name());
  const std::optional<std::uint64_t> free = io::free_bytes(shared_memory);
  std::array<std::int64_t, 2> mine{bytes, free ? static_cast<std::int64_t>(*free) : std::numeric_limits<std::int64_t>::max()};
  std::vector<std::int64_t> all(2 * hosts.size());
  const std::vector<std::int64_t> twos(hosts.size(), 2);
  world.host()
      .all_gather(view(std::span(all), Shape{std::ssize(all)}), view(std::span<std::int64_t>(mine), Shape{2}), twos)
      .wait();
  for (std::size_t first = 0; first < hosts.size(); ++first) {
    std::int64_t needed = 0;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) needed += hosts[rank] == hosts[first] ? all[2 * rank] : 0;
    const std::int64_t left = all[2 * first + 1];
    if (needed <= left) continue;
    const auto text = [](std::int64_t of) { return format_bytes(static_cast<std::uint64_t>(of)); };
    return Problem{
        fmt::format("checkpoint.copies = neighbour: {} of {} has {} left, and its ranks' copies need {}", shared_memory,
                    hosts[first], text(left), text(needed)),
        fmt::format("mount -o remount,size={}M {} there, or checkpoint.copies=none", (needed >> 20) + 1, shared_memory)};
  }
  return std::nullopt;
}

}  // namespace lockstep::app
