#include "comm/mpi/process_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"

namespace lockstep::comm {
namespace {

// A token is a segment's number and a place in it.
constexpr int place_bits = 48;
constexpr std::uint64_t place_mask = (std::uint64_t{1} << place_bits) - 1;
constexpr std::size_t line = 64, slab_bytes = std::size_t{1} << 20;

}  // namespace

ProcessMemory::ProcessMemory(std::span<Directory> directories, int rank)
    : directories_(directories), rank_(rank), segments_(directories.size()), window_(*this) {
  directories_[static_cast<std::size_t>(rank)].pid = getpid();
}

std::uint64_t ProcessMemory::token(const std::byte* address) const {
  auto after = own_.upper_bound(address);
  if (after == own_.begin()) return 0;
  const auto [start, id] = *std::prev(after);
  const auto place = static_cast<std::uint64_t>(address - start);
  return place < reach(rank_, id).bytes() ? id << place_bits | place : 0;
}

std::byte* ProcessMemory::find(int rank, std::uint64_t token) const {
  return reach(rank, token >> place_bits).data() + (token & place_mask);
}

const Segment& ProcessMemory::reach(int rank, std::uint64_t id) const {
  std::vector<Segment>& met = segments_[static_cast<std::size_t>(rank)];
  if (id >= met.size()) met.resize(id + 1);
  if (met[id].data() == nullptr) {
    const Directory& directory = directories_[static_cast<std::size_t>(rank)];
    const Directory::Entry& entry = directory.entries.at(id);
    ensure(entry.bytes > 0, "shared memory is there while others use it");
    met[id] = Segment::open(directory.pid, entry.descriptor, entry.bytes);
  }
  return met[id];
}

std::byte* ProcessMemory::add_segment(std::size_t bytes) {
  if (next_ >= Directory::capacity) {
    throw SystemError(fmt::format("no shared memory: a rank makes at most {} segments in one run", Directory::capacity - 1));
  }
  Segment segment = Segment::make(bytes);
  std::byte* data = segment.data();
  std::vector<Segment>& own = segments_[static_cast<std::size_t>(rank_)];
  if (next_ >= own.size()) own.resize(next_ + 1);
  directories_[static_cast<std::size_t>(rank_)].entries[next_] = {segment.descriptor(), bytes};
  own[next_] = std::move(segment);
  own_.emplace(data, next_++);
  return data;
}

std::byte* ProcessMemory::allocate(std::size_t bytes) {
  const std::size_t whole = (bytes + line - 1) / line * line;
  if (whole > rest_bytes_) {
    rest_bytes_ = std::max(whole, slab_bytes);
    rest_ = add_segment(rest_bytes_);
  }
  rest_bytes_ -= whole;
  return std::exchange(rest_, rest_ + whole);
}

Memory ProcessMemory::Window::allocate(std::size_t size) {
  if (size == 0) return {};
  return {this, memory_.add_segment(size), size};
}

void ProcessMemory::Window::release(std::byte* data, std::size_t) noexcept {
  const auto found = memory_.own_.find(data);
  if (found == memory_.own_.end()) return;
  const auto rank = static_cast<std::size_t>(memory_.rank_);
  Segment& segment = memory_.segments_[rank][found->second];
  segment.empty();
  memory_.directories_[rank].entries[found->second] = {};
  segment = Segment();
  memory_.own_.erase(found);
}

}  // namespace lockstep::comm
