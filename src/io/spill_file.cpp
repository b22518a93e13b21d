#include "io/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/checked.h"
#include "base/error.h"
#include "base/units.h"
#include "io/interrupted.h"

namespace lockstep::io {
namespace {

constexpr std::size_t largest_move = std::size_t{1} << 30;
constexpr std::string_view reading = "read offloaded state in", writing = "write offloaded state in";

Path new_name(const Path& folder) {
  static std::atomic<unsigned> made{0};
  return folder / fmt::format(".lockstep-offload-{}-{}", ::getpid(), made++);
}

std::int64_t move_now(const Ring::Move& move) {
  const std::size_t bytes = std::min(move.bytes, largest_move);
  const auto offset = narrow<off_t>(move.offset);
  const ssize_t moved = uninterrupted([&] {
    return move.writes ? ::pwrite(move.descriptor, move.data, bytes, offset) : ::pread(move.descriptor, move.data, bytes, offset);
  });
  return moved < 0 ? -errno : moved;
}

/// A file that has no name in the folder, from its first moment on where the file system knows that (O_TMPFILE).
int open_nameless(const Path& folder) {
  const int nameless = uninterrupted([&] { return ::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600); });
  const bool unknown = nameless < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT);
  if (nameless >= 0) return nameless;
  if (!unknown) throw_file_error(errno, "make a file for offloaded state in", folder);
  const Path name = new_name(folder);
  const int named = uninterrupted([&] { return ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); });
  if (named < 0) throw_file_error(errno, "make a file for offloaded state in", folder);
  if (::unlink(name.c_str()) == 0) return named;
  const int code = errno;
  ::close(named);
  throw_file_error(code, "take the name from the file for offloaded state", name);
}

std::string reason(int code) { return std::generic_category().message(code); }

}  // namespace

SpillFile::SpillFile(const Path& folder, std::uint64_t bytes, SpillWays ways)
    : folder_(folder), descriptor_(open_nameless(folder)) {
  try {
    reserve(static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(std::max<std::uint64_t>(bytes, 1)), block)));
    choose_way(ways);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SpillFile::~SpillFile() {
  try {
    while (under_way_ > 0) wait_for_one();
  } catch (...) {
    ring_.reset();  // the kernel lets go of the buffers
  }
  ring_.reset();
  ::close(descriptor_);
}

// A file system that cannot reserve is asked what it has.
void SpillFile::reserve(std::uint64_t bytes) {
  struct statvfs system{};
  if (::fstatvfs(descriptor_, &system) != 0) throw_file_error(errno, "ask the free space of", folder_);
  const std::uint64_t free = std::uint64_t{system.f_bavail} * system.f_frsize;
  const auto size = narrow<off_t>(bytes);
  int code = uninterrupted([&] { return ::fallocate(descriptor_, 0, 0, size); }) == 0 ? 0 : errno;
  if (code == EOPNOTSUPP || code == ENOSYS) {
    code = bytes > free ? ENOSPC : uninterrupted([&] { return ::ftruncate(descriptor_, size); }) == 0 ? 0 : errno;
  }
  if (code == ENOSPC) {
    throw UserError(
        fmt::format("offloaded state needs {} in {}: {} are free", format_bytes(bytes), folder_.string(), format_bytes(free)),
        "free some space on this file system, name a folder on another one, or offload less");
  }
  if (code != 0) throw_file_error(code, fmt::format("reserve {} in", format_bytes(bytes)), folder_);
}

bool SpillFile::set_direct(bool direct) const {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  return ::fcntl(descriptor_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// Some file systems take the flag and refuse the first move.
void SpillFile::choose_way(SpillWays ways) {
  alignas(block) std::array<std::byte, block> probe{};
  const Ring::Move move{descriptor_, false, probe.data(), block, 0, 0};
  std::string not_direct = ways.direct ? "" : "not asked for", no_ring = ways.ring ? "" : "not asked for";
  if (ways.direct) {
    const std::int64_t result = set_direct(true) ? move_now(move) : -errno;
    if (result < 0) not_direct = reason(static_cast<int>(-result));
  }
  if (!not_direct.empty()) set_direct(false);
  if (ways.ring) {
    RingChoice choice = make_ring(most_moves);
    ring_ = std::move(choice.ring);
    no_ring = choice.refused;
  }
  if (ring_) {
    ring_->submit(move);
    if (const std::int64_t result = ring_->wait().result; result < 0) {
      no_ring = reason(static_cast<int>(-result));
      ring_.reset();
    }
  }
  way_ = no_ring.empty() ? "io_uring" : fmt::format("pread and pwrite (io_uring: {})", no_ring);
  way_ += not_direct.empty() ? " with O_DIRECT" : fmt::format(" through the page cache (O_DIRECT: {})", not_direct);
}

int SpillFile::begin(Ring::Move move) {
  const auto whole = [](std::uint64_t value) { return value % block == 0; };
  ensure(whole(move.offset) && whole(move.bytes) && whole(reinterpret_cast<std::uintptr_t>(move.data)) && move.bytes > 0,
         "whole blocks are moved");
  const auto free = std::ranges::find(slots_, false, &Slot::taken);
  ensure(free != slots_.end(), "no more moves are under way than a spill file has");
  move.descriptor = descriptor_;
  move.number = static_cast<int>(free - slots_.begin());
  *free = {.rest = move, .taken = true, .done = false, .error = 0};
  carry_out(*free);
  return move.number;
}

void SpillFile::carry_out(Slot& slot) {
  while (!slot.done) {
    if (ring_) {
      Ring::Move next = slot.rest;
      next.bytes = std::min(next.bytes, largest_move);
      ring_->submit(next);
      ++under_way_;
      return;
    }
    advance(slot, move_now(slot.rest));
  }
}

void SpillFile::advance(Slot& slot, std::int64_t result) {
  if (result == -EINTR || result == -EAGAIN) return;
  if (result <= 0) {
    slot.error = result == 0 ? EIO : static_cast<int>(-result);
    slot.done = true;
    return;
  }
  const auto moved = static_cast<std::size_t>(result);
  slot.rest.data += moved;
  slot.rest.offset += moved;
  slot.rest.bytes -= moved;
  slot.done = slot.rest.bytes == 0;
}

void SpillFile::wait_for_one() {
  const Ring::Done done = ring_->wait();
  --under_way_;
  Slot& slot = slots_[static_cast<std::size_t>(done.number)];
  advance(slot, done.result);
  carry_out(slot);
}

void SpillFile::finish(int move) {
  Slot& slot = slots_.at(static_cast<std::size_t>(move));
  ensure(slot.taken, "a move is finished once");
  while (!slot.done) wait_for_one();
  slot.taken = false;
  if (slot.error != 0) throw_file_error(slot.error, slot.rest.writes ? writing : reading, folder_);
}

}  // namespace lockstep::io
