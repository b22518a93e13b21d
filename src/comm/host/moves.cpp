#include "comm/host/moves.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "comm/combine.h"
#include "device/team.h"

namespace lockstep::comm::host {
namespace {

constexpr std::int64_t cache_line = 64;              // bytes
constexpr std::int64_t tile_bytes = 128 << 10;       // what a worker takes at a time
constexpr std::int64_t team_bytes = 4 * tile_bytes;  // below that, waking the team costs more than it gains

// work(first, count) over [0, total) bytes, in tiles, by the team's threads or the caller alone.
template <class Work>
void in_tiles(Team* team, std::int64_t total, Work work) {
  if (team == nullptr || team->size() == 1 || total < team_bytes) {
    if (total > 0) work(0, total);
    return;
  }
  team->for_each(div_up(total, tile_bytes), [&](std::int64_t tile, int) {
    const std::int64_t first = tile * tile_bytes;
    work(first, std::min(tile_bytes, total - first));
  });
}

struct Share {
  std::int64_t first, count;  // bytes
};

// Equal parts of `bytes` in whole lines; trailing ones may be short or empty.
Share share_of(std::int64_t bytes, int rank, int ranks) {
  const std::int64_t part = round_up(div_up(bytes, ranks), cache_line);
  const std::int64_t first = std::min(bytes, part * rank);
  return {first, std::min(part, bytes - first)};
}

std::int64_t before(std::span<const std::int64_t> counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

class Work {
 public:
  Work(const Member& member, const Operation& operation, std::uint64_t sequence)
      : m_(member),
        op_(operation),
        sequence_(sequence),
        size_(static_cast<std::int64_t>(size_of(operation.dtype))),
        ranks_(member.board.ranks()) {}

  void run() const {
    switch (op_.kind) {
      case Collective::all_reduce:
        return reduce_share(every_rank());
      case Collective::reduce:
        return reduce_share({op_.root});
      case Collective::reduce_scatter:
        return reduce_range({before(op_.counts, m_.rank) * size_, op_.counts[static_cast<std::size_t>(m_.rank)] * size_},
                            {op_.out.data});
      case Collective::broadcast:
        if (m_.rank != op_.root) copy(m_.team, op_.out.data, given(op_.root), op_.count * size_);
        return;
      case Collective::all_gather:
        return gather_all();
      case Collective::gather:
        return copy(m_.team, taken(op_.root) + m_.rank * op_.count * size_, op_.in.data, op_.count * size_);
      case Collective::scatter:
        return copy(m_.team, op_.out.data, given(op_.root) + m_.rank * op_.count * size_, op_.count * size_);
      case Collective::all_to_all:
        return exchange();
      default:
        return;
    }
  }

 private:
  std::byte* find(int rank, std::uint64_t token) const {
    return token == 0 ? nullptr : m_.memory.find(m_.members[static_cast<std::size_t>(rank)], token);
  }
  const std::byte* given(int rank) const { return find(rank, m_.board.slot(rank, sequence_).in); }
  std::byte* taken(int rank) const { return find(rank, m_.board.slot(rank, sequence_).out); }

  std::vector<int> every_rank() const {
    std::vector<int> ranks(static_cast<std::size_t>(ranks_));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  // This rank's part of everybody's input, combined, to its place in the outputs of `to`.
  void reduce_share(const std::vector<int>& to) const {
    const Share share = share_of(op_.count * size_, m_.rank, ranks_);
    std::vector<std::byte*> destinations;
    for (const int r : to) destinations.push_back(taken(r) + share.first);
    reduce_range(share, destinations);
  }

  // Bytes `range` of everybody's input, combined.
  void reduce_range(Share range, const std::vector<std::byte*>& destinations) const {
    if (range.count == 0) return;
    std::vector<const std::byte*> sources;
    for (int r = 0; r < ranks_; ++r) sources.push_back(given(r) + range.first);
    in_tiles(m_.team, range.count, [&](std::int64_t first, std::int64_t bytes) {
      combine(op_.reduction, op_.dtype, sources, destinations, first / size_, bytes / size_);
    });
  }

  void gather_all() const {
    std::int64_t at = 0;
    for (int r = 0; r < ranks_; ++r) {
      const std::int64_t bytes = op_.counts[static_cast<std::size_t>(r)] * size_;
      copy(m_.team, op_.out.data + at, given(r), bytes);
      at += bytes;
    }
  }

  void exchange() const {
    std::int64_t at = 0;
    for (int r = 0; r < ranks_; ++r) {
      const std::span<const std::int64_t> sent(m_.board.counts(r, sequence_), static_cast<std::size_t>(ranks_));
      const std::int64_t bytes = op_.out_counts[static_cast<std::size_t>(r)] * size_;
      copy(m_.team, op_.out.data + at, given(r) + before(sent, m_.rank) * size_, bytes);
      at += bytes;
    }
  }

  const Member& m_;
  const Operation& op_;
  std::uint64_t sequence_;
  std::int64_t size_;
  int ranks_;
};

}  // namespace

void copy(Team* team, std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to == from) return;
  in_tiles(team, bytes, [&](std::int64_t first, std::int64_t count) {
    std::memmove(to + first, from + first, static_cast<std::size_t>(count));
  });
}

void do_share(const Member& member, const Operation& operation, std::uint64_t sequence) {
  Work(member, operation, sequence).run();
}

}  // namespace lockstep::comm::host
