#include "tensor/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/units.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 6> kind_names{"parameters", "gradients", "optimizer", "activations", "workspace", "data"};
constexpr std::size_t owners_shown = 3;

std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

}  // namespace

std::string_view name_of(MemoryKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

void Ledger::add(MemoryKind kind, const std::string& owner, std::int64_t total, const std::vector<LedgerEntry>& entries) {
  ensure(total >= 0, "an owner takes no negative number of bytes");
  const auto same = [&](const Sum& sum) { return sum.kind == kind && sum.owner == owner; };
  const auto found = std::find_if(sums_.begin(), sums_.end(), same);
  if (found != sums_.end()) {
    found->bytes += total;
  } else {
    sums_.push_back({kind, owner, total});
  }
  entries_.insert(entries_.end(), entries.begin(), entries.end());
}

std::int64_t Ledger::total() const {
  std::int64_t sum = 0;
  for (const Sum& row : sums_) sum += row.bytes;
  return sum;
}

std::int64_t Ledger::total(MemoryKind kind) const {
  std::int64_t sum = 0;
  for (const Sum& row : sums_) sum += row.kind == kind ? row.bytes : 0;
  return sum;
}

std::string Ledger::table() const {
  std::string text = fmt::format("{:<12} {:>12}  {}\n", "memory", "bytes", "largest owners");
  for (std::size_t k = 0; k < kind_names.size(); ++k) {
    const MemoryKind kind = static_cast<MemoryKind>(k);
    std::vector<const Sum*> owners;
    for (const Sum& sum : sums_) {
      if (sum.kind == kind) owners.push_back(&sum);
    }
    if (owners.empty()) continue;
    std::sort(owners.begin(), owners.end(),
              [](const Sum* a, const Sum* b) { return a->bytes != b->bytes ? a->bytes > b->bytes : a < b; });
    std::string largest;
    for (std::size_t i = 0; i < std::min(owners.size(), owners_shown); ++i) {
      largest += fmt::format("{}{} {}", i == 0 ? "" : ", ", owners[i]->owner, bytes_text(owners[i]->bytes));
    }
    if (owners.size() > owners_shown) largest += fmt::format(", {} more", owners.size() - owners_shown);
    text += fmt::format("{:<12} {:>12}  {}\n", name_of(kind), bytes_text(total(kind)), largest);
  }
  return text + fmt::format("{:<12} {:>12}\n", "total", bytes_text(total()));
}

}  // namespace lockstep
