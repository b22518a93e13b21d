#include "data/bpe/merges.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace lockstep::data::bpe {
namespace {

// Longer words take a heap: looking through all pairs for every merge is quadratic, though faster while a word is short.
constexpr std::size_t short_word = 48;

bool later(const MergeScratch::Candidate& a, const MergeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

Merges::Merges(const Model& model)
    : byte_level_(model.byte_level),
      bytes_(model.bytes),
      characters_(model.characters),
      unknown_(model.unknown),
      fuse_unknown_(model.fuse_unknown) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(16, 2 * model.merges.size()));
  shift_ = 64 - std::countr_zero(size);
  table_.resize(size);
  for (std::size_t rank = 0; rank < model.merges.size(); ++rank) {
    const Merge& merge = model.merges[rank];
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::size_t at = slot(pair);
    while (table_[at].rank != none) at = (at + 1) & (size - 1);
    table_[at] = {pair, static_cast<std::uint32_t>(rank), merge.merged};
  }
}

Merges::Entry Merges::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t at = slot(pair);; at = (at + 1) & (table_.size() - 1)) {
    const Entry& entry = table_[at];
    if (entry.pair == pair || entry.rank == none) return entry;
  }
}

std::size_t Merges::encode(std::string_view word, std::int32_t* ids, MergeScratch& scratch) const {
  std::size_t count = word.size();
  if (byte_level_) {
    for (std::size_t i = 0; i < count; ++i) ids[i] = bytes_[static_cast<unsigned char>(word[i])];
  } else {
    count = characters_of(word, ids, scratch.unknown);
  }
  if (count < 2) return count;
  return count <= short_word ? merge_short(ids, count, scratch.parts) : merge_long(ids, count, scratch);
}

// As tokenizers (0.23, BPE::merge_word) has it: bytes do not end a row of unknown characters.
std::size_t Merges::characters_of(std::string_view word, std::int32_t* ids, std::string& unknown) const {
  std::int32_t* end = ids;
  bool waits = false;  // a token for unknown characters
  for (std::size_t at = 0, length = 0; at < word.size(); at += length) {
    const CodePoint point = pattern::character_at(word, at);
    length = point.length;
    const std::string_view bytes = word.substr(at, length);
    const auto id_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
    if (point.value < characters_.size() && characters_[point.value] >= 0) {
      if (std::exchange(waits, false)) *end++ = unknown_;
      *end++ = characters_[point.value];
    } else if (std::ranges::all_of(bytes, [&](char byte) { return id_of(byte) >= 0; })) {
      end = std::ranges::transform(bytes, end, id_of).out;
    } else if (unknown_ < 0) {
      if (unknown.find(bytes) == std::string::npos) unknown += bytes;
    } else if (!std::exchange(waits, true) || fuse_unknown_) {
      continue;
    } else {
      *end++ = unknown_;
    }
  }
  if (waits) *end++ = unknown_;
  return static_cast<std::size_t>(end - ids);
}

std::size_t Merges::merge_short(std::int32_t* ids, std::size_t count, std::vector<MergeScratch::Part>& parts) const {
  parts.resize(std::max(parts.size(), count));
  for (std::size_t i = 0; i < count; ++i) parts[i].id = ids[i];
  const auto pair_up = [&](std::size_t i) {
    const Entry entry = i + 1 < count ? find(parts[i].id, parts[i + 1].id) : Entry{};
    parts[i].rank = entry.rank;
    parts[i].merged = entry.merged;
  };
  for (std::size_t i = 0; i < count; ++i) pair_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (parts[i].rank < parts[best].rank) best = i;
    }
    if (parts[best].rank == none) break;
    parts[best].id = parts[best].merged;
    std::move(parts.begin() + static_cast<std::ptrdiff_t>(best) + 2, parts.begin() + static_cast<std::ptrdiff_t>(count),
              parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --count;
    pair_up(best);
    if (best > 0) pair_up(best - 1);
  }
  for (std::size_t i = 0; i < count; ++i) ids[i] = parts[i].id;
  return count;
}

// Parts are a list; the heap holds every pair that ever was, and what became of its parts since is seen by their ids.
std::size_t Merges::merge_long(std::int32_t* ids, std::size_t size, MergeScratch& scratch) const {
  std::vector<MergeScratch::Part>& parts = scratch.parts;
  std::vector<MergeScratch::Candidate>& heap = scratch.heap;
  const auto count = static_cast<std::uint32_t>(size);
  parts.resize(std::max<std::size_t>(parts.size(), count));
  heap.clear();
  const auto candidate = [&](std::uint32_t at) {
    const std::uint32_t next = parts[at].next;
    if (next >= count) return;
    const Entry entry = find(parts[at].id, parts[next].id);
    parts[at].merged = entry.merged;
    if (entry.rank == none) return;
    heap.push_back({entry.rank, at, parts[at].id, parts[next].id});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    parts[i] = {.id = ids[i], .rank = none, .merged = -1, .before = i - 1, .next = i + 1};
  }
  for (std::uint32_t i = 0; i < count; ++i) candidate(i);
  while (!heap.empty()) {
    const MergeScratch::Candidate pair = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    MergeScratch::Part& left = parts[pair.at];
    if (left.id != pair.left || left.next >= count || parts[left.next].id != pair.right) continue;
    MergeScratch::Part& right = parts[left.next];
    left.id = left.merged;
    right.id = -1;  // no longer a part: no pair of the heap has this id
    left.next = right.next;
    if (left.next < count) parts[left.next].before = pair.at;
    candidate(pair.at);
    if (left.before < count) candidate(left.before);
  }
  std::size_t written = 0;
  for (std::uint32_t at = 0; at < count; at = parts[at].next) ids[written++] = parts[at].id;
  return written;
}

}  // namespace lockstep::data::bpe
