#include "comm/mpi/host_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "base/error.h"

namespace lockstep::comm {
namespace {

std::size_t lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

std::size_t directories_at() { return lines(sizeof(HostControl::Head)); }
std::size_t roll_at(int world) { return directories_at() + lines(static_cast<std::size_t>(world) * sizeof(Directory)); }
std::size_t board_at(int world) { return roll_at(world) + lines(host::Roll::bytes(world)); }

// The host's first rank makes the control block, the others map it; all of them succeed, or all throw.
Segment share_control(const MpiLibrary& mpi, const MpiLibrary::Host& host) {
  struct Where {
    int pid = 0;
    int descriptor = -1;
  } where;
  Segment segment;
  std::exception_ptr error;
  const std::size_t bytes = HostControl::bytes(mpi.size(), host.ranks);
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (const SystemError&) {
      error = std::current_exception();
    }
  };
  if (mpi.rank() == host.first) {
    attempt([&] {
      segment = Segment::make(bytes);
      where = {getpid(), segment.descriptor()};
    });
  }
  where = from_all(mpi, where)[static_cast<std::size_t>(host.first)];
  if (mpi.rank() != host.first && where.pid != 0) {
    attempt([&] { segment = Segment::open(where.pid, where.descriptor, bytes); });
  }
  const std::vector<std::int32_t> good = from_all(mpi, std::int32_t{segment.data() != nullptr});
  if (error) std::rethrow_exception(error);
  const auto bad = std::ranges::find(good, 0);
  if (bad != good.end()) throw SystemError(fmt::format("rank {} could not share memory with the others", bad - good.begin()));
  return segment;
}

}  // namespace

HostControl::HostControl(std::byte* memory, int world, int host)
    : head(reinterpret_cast<Head*>(memory)),
      directories(reinterpret_cast<Directory*>(memory + directories_at()), static_cast<std::size_t>(world)),
      roll(memory + roll_at(world), world),
      board(memory + board_at(world), host) {}

std::size_t HostControl::bytes(int world, int host) { return board_at(world) + host::Board::bytes(host); }

HostMemory::HostMemory(const MpiLibrary& mpi, const MpiLibrary::Host& host)
    : segment(share_control(mpi, host)),
      control(segment.data(), mpi.size(), host.ranks),
      memory(control.directories, mpi.rank()),
      staging(memory, memory.window()) {
  from_all(mpi, std::int32_t{0});  // every rank's directory is filled in
}

}  // namespace lockstep::comm
