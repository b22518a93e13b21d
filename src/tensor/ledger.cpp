#include "tensor/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/error.h"
#include "base/units.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 6> kind_names{"parameters", "gradients", "optimizer", "activations", "workspace", "data"};
constexpr std::size_t owners_shown = 3;

std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

/// What some neighbouring layers take, of each kind.
struct LayerRow {
  std::string first;
  std::array<std::int64_t, kind_names.size()> bytes;  ///< of one of them
  std::string last = {};                              ///< empty: it is one
  std::int64_t layers = 1;
};

std::vector<LayerRow> joined(const std::vector<LayerRow>& rows) {
  std::vector<LayerRow> all;
  for (const LayerRow& row : rows) {
    if (all.empty() || all.back().bytes != row.bytes) {
      all.push_back(row);
      continue;
    }
    all.back().last = row.first;
    ++all.back().layers;
  }
  return all;
}

std::string text_of(const LayerRow& row) {
  std::string text = fmt::format("{:<14}", row.last.empty() ? row.first : row.first + " to " + row.last);
  std::int64_t total = 0;
  for (const std::int64_t bytes : row.bytes) {
    text += fmt::format(" {:>12}", bytes == 0 ? "" : bytes_text(bytes * row.layers));
    total += bytes * row.layers;
  }
  return text + fmt::format(" {:>12}\n", bytes_text(total));
}

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

std::int64_t Ledger::unnamed(const Sum& sum) const {
  std::int64_t bytes = sum.bytes;
  for (const LedgerEntry& entry : entries_) bytes -= entry.kind == sum.kind && entry.owner == sum.owner ? entry.taken : 0;
  return bytes;
}

std::vector<LedgerTensor> Ledger::tensors() const {
  std::vector<LedgerTensor> all;
  const auto find = [&](MemoryKind kind, const std::string& name) -> LedgerTensor& {
    const auto same = [&](const LedgerTensor& tensor) { return tensor.kind == kind && tensor.name == name; };
    const auto found = std::ranges::find_if(all, same);
    return found != all.end() ? *found : all.emplace_back(LedgerTensor{kind, name});
  };
  for (const LedgerEntry& entry : entries_) {
    if (entry.taken == 0) continue;
    LedgerTensor& tensor = find(entry.kind, entry.name);
    tensor.bytes += entry.taken;
    tensor.layers += entry.layer.empty() ? 0 : 1;
  }
  for (const Sum& sum : sums_) {
    if (const std::int64_t bytes = unnamed(sum); bytes > 0) find(sum.kind, sum.owner).bytes += bytes;
  }
  const auto before = [](const LedgerTensor& a, const LedgerTensor& b) {
    return std::tie(b.bytes, a.kind, a.name) < std::tie(a.bytes, b.kind, b.name);  // the largest first
  };
  std::ranges::sort(all, before);
  return all;
}

std::string Ledger::layer_table() const {
  constexpr std::string_view of_all = "all layers";
  std::vector<LayerRow> rows;
  LayerRow rest{std::string(of_all), {}};
  for (const LedgerEntry& entry : entries_) {
    const auto found = std::ranges::find(rows, entry.layer, &LayerRow::first);
    LayerRow& row = entry.layer.empty() ? rest : found != rows.end() ? *found : rows.emplace_back(LayerRow{entry.layer, {}});
    row.bytes[static_cast<std::size_t>(entry.kind)] += entry.taken;
  }
  for (const Sum& sum : sums_) rest.bytes[static_cast<std::size_t>(sum.kind)] += unnamed(sum);
  rows = joined(rows);
  rows.push_back(rest);
  std::string text = fmt::format("{:<14}", "layer");
  for (const std::string_view name : kind_names) text += fmt::format(" {:>12}", name);
  text += fmt::format(" {:>12}\n", "total");
  for (const LayerRow& row : rows) text += text_of(row);
  return text;
}

std::string Ledger::tensor_table() const {
  std::string text = fmt::format("{:<12} {:>12}  {}\n", "kind", "bytes", "tensor");
  std::int64_t small = 0, bytes = 0;
  for (const LedgerTensor& tensor : tensors()) {
    if (tensor.bytes * 1000 < total()) {
      ++small;
      bytes += tensor.bytes;
      continue;
    }
    text += fmt::format("{:<12} {:>12}  {}{}\n", name_of(tensor.kind), bytes_text(tensor.bytes), tensor.name,
                        tensor.layers > 1 ? fmt::format(" of {} layers", tensor.layers) : "");
  }
  return small == 0 ? text : text + fmt::format("{:<12} {:>12}  {} smaller ones\n", "", bytes_text(bytes), small);
}

}  // namespace lockstep
