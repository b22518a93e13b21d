#include "data/prepare/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "base/units.h"

namespace lockstep::data {

std::vector<std::vector<std::int64_t>> pack_documents(std::span<const std::int64_t> lengths, std::int64_t length) {
  std::vector<std::int64_t> longest_first(lengths.size());
  std::iota(longest_first.begin(), longest_first.end(), std::int64_t{0});
  const auto tokens = [&](std::int64_t document) { return lengths[static_cast<std::size_t>(document)]; };
  std::ranges::stable_sort(longest_first, std::ranges::greater(), tokens);
  std::vector<std::vector<std::int64_t>> windows;
  // By the tokens that are left. A last document needs no separator behind it, so a window begins with one more.
  std::map<std::int64_t, std::vector<std::size_t>> open;
  for (const std::int64_t document : longest_first) {
    const std::int64_t needed = tokens(document) + 1;
    ensure(tokens(document) <= length, "a window holds every document");
    const auto best = open.lower_bound(needed);
    std::size_t window = windows.size();
    std::int64_t left = length + 1;
    if (best != open.end()) {
      left = best->first;
      window = best->second.back();
      best->second.pop_back();
      if (best->second.empty()) open.erase(best);
    } else {
      windows.emplace_back();
    }
    windows[window].push_back(document);
    if (left > needed) open[left - needed].push_back(window);
  }
  for (std::vector<std::int64_t>& window : windows) std::ranges::sort(window);
  std::ranges::sort(windows);
  return windows;
}

namespace {

std::vector<std::vector<std::int64_t>> one_in_each(std::size_t documents) {
  std::vector<std::vector<std::int64_t>> windows(documents, {0});
  for (std::size_t i = 0; i < documents; ++i) windows[i][0] = static_cast<std::int64_t>(i);
  return windows;
}

}  // namespace

void UsedIds::add(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) used_[static_cast<std::size_t>(id)] = true;
}

std::int32_t UsedIds::unused() const {
  for (std::size_t id = used_.size(); id-- > 0;) {
    if (!used_[id]) return static_cast<std::int32_t>(id);
  }
  throw UserError("--pack: the text has every token of the vocabulary, so none is left to stand between documents",
                  "take a tokenizer with a token that the text does not have, such as an end of text");
}

std::string write_packed(const TokenFile& text, std::span<const std::int64_t> lengths, const Packing& packing,
                         std::int64_t text_bytes, TokenWriter& writer) {
  if (const auto most = std::ranges::max_element(lengths); most != lengths.end() && *most > packing.length) {
    throw UserError(fmt::format("--pack: a document has {} tokens with what ends it, but a window {}", format_count(*most),
                                format_count(packing.length)),
                    fmt::format("--length {} or more, or shorter documents", *most));
  }
  std::vector<std::int64_t> begins(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), std::int64_t{0});
  const auto length = static_cast<std::size_t>(packing.length);
  std::vector<std::int32_t> ids, targets;
  std::vector<std::uint8_t> mask;
  std::vector<std::byte> packed;
  const auto append = [&](std::size_t bytes) {
    pack(ids, text.format(), packed);
    writer.append(packed, std::ssize(ids), bytes, mask);
  };
  const std::vector<std::vector<std::int64_t>> windows =
      packing.pairs ? one_in_each(lengths.size()) : pack_documents(lengths, packing.length);
  for (const std::vector<std::int64_t>& window : windows) {
    ids.assign(length, packing.separator);
    mask.assign(length, 0);
    std::size_t at = 0;
    for (const std::int64_t document : window) {
      const auto count = static_cast<std::size_t>(lengths[static_cast<std::size_t>(document)]);
      const std::int64_t begin = begins[static_cast<std::size_t>(document)];
      const std::span<std::int32_t> own = std::span(ids).subspan(at, count);
      text.read(begin, own);
      targets.assign(own.begin(), own.end());
      text.apply_mask(begin, targets);
      for (std::size_t i = 1; i < count; ++i) mask[at + i] = targets[i] >= 0 ? 1 : 0;
      at += count + 1;
    }
    append(0);
  }
  ids.assign(1, packing.separator);
  mask.assign(1, 0);
  append(static_cast<std::size_t>(text_bytes));
  return fmt::format("{} document{} in {} window{} of {} tokens, {:.1f} % of which are used", format_count(std::ssize(lengths)),
                     lengths.size() == 1 ? "" : "s", format_count(std::ssize(windows)), windows.size() == 1 ? "" : "s",
                     format_count(packing.length),
                     100 * static_cast<double>(text.tokens()) / static_cast<double>(std::ssize(windows) * packing.length));
}

Packer::Packer(const io::Path& folder, const TokenFormat& format, std::int64_t length, bool pairs)
    : format_(format),
      length_(length),
      pairs_(pairs),
      used_(format.vocabulary),
      train_{TokenWriter(folder / "documents-train.bin")},
      val_{TokenWriter(folder / "documents-val.bin")} {}

void Packer::note(const EncodedPart& train, const EncodedPart& val) {
  for (const auto& [from, to] : {std::pair(&train, &train_), {&val, &val_}}) {
    used_.add(from->ids());
    to->lengths.insert(to->lengths.end(), from->documents().begin(), from->documents().end());
  }
}

Packing Packer::pack(TokenWriter& train, TokenWriter& val, std::FILE* facts) {
  const Packing packing{length_, used_.unused(), pairs_};
  for (const auto& [name, from, to] : {std::tuple("train", &train_, &train), {"val", &val_, &val}}) {
    to->begin_mask();
    fmt::print(facts, "{}: {}\n", name,
               write_packed(from->writer.open(format_), from->lengths, packing, from->writer.text_bytes(), *to));
  }
  return packing;
}

}  // namespace lockstep::data
