#include "data/bpe/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/bpe/byte_alphabet.h"

namespace lockstep::data::bpe {
namespace {

constexpr std::int32_t left_out = -1;  // what a merge gives that stands again further down

constexpr const char* remedy = "take the vocabulary and the merges that were published together";

}  // namespace

std::optional<Pattern> Model::only_pattern() const {
  const bool nfc = std::ranges::all_of(
      normalizer, [](const NormalRule& rule) { return rule.kind == NormalRule::Kind::form && rule.form == normal::Form::c; });
  const bool alone = splits.size() == 1 || (splits.size() == 2 && splits[1].kind == SplitRule::Kind::alphabet);
  return byte_level && nfc && alone && splits[0].kind == SplitRule::Kind::words ? std::optional(splits[0].pattern) : std::nullopt;
}

// Some vocabularies have holes, but none is mostly holes.
ModelBuilder::ModelBuilder(std::string what, std::size_t tokens, bool byte_level)
    : what_(std::move(what)), most_ids_(std::min<std::int64_t>(4 * static_cast<std::int64_t>(tokens) + 65536, 1 << 24)) {
  model_.byte_level = byte_level;
}

std::string& ModelBuilder::slot(std::int64_t id) {
  if (id < 0 || id >= most_ids_) {
    throw UserError(fmt::format("{}: token id {} is not from 0 to {}", what_, id, most_ids_ - 1), remedy);
  }
  const auto at = static_cast<std::size_t>(id);
  if (model_.tokens.size() <= at) {
    model_.tokens.resize(at + 1);
    model_.words.resize(at + 1);
  }
  return model_.tokens[at];
}

void ModelBuilder::token(std::string_view text, std::int64_t id) {
  std::string& bytes = slot(id);
  if (text.empty()) throw UserError(fmt::format("{}: token {} is empty", what_, id), remedy);
  if (!bytes.empty()) throw UserError(fmt::format("{}: two tokens have id {}, one of them \"{}\"", what_, id, text), remedy);
  const std::optional<std::string> read = model_.byte_level ? from_alphabet(text) : std::string(text);
  bytes = read.value_or(std::string(text));
  model_.words[static_cast<std::size_t>(id)] = read.has_value();
  if (!ids_.emplace(text, static_cast<std::int32_t>(id)).second) {
    throw UserError(fmt::format("{}: the token \"{}\" is there twice", what_, text), remedy);
  }
}

std::int32_t ModelBuilder::id_of(std::string_view text, std::string_view use) const {
  const auto found = ids_.find(std::string(text));
  if (found != ids_.end()) return found->second;
  throw UserError(fmt::format("{}: {} contradicts the vocabulary, which has no token \"{}\"", what_, use, text), remedy);
}

void ModelBuilder::merge(std::string_view left, std::string_view right) {
  const std::string use = fmt::format("merge {} (\"{} {}\")", model_.merges.size(), left, right);
  const Merge merge{
      .left = id_of(left, use), .right = id_of(right, use), .merged = id_of(std::string(left) + std::string(right), use)};
  const std::uint64_t pair = static_cast<std::uint64_t>(merge.left) << 32 | static_cast<std::uint32_t>(merge.right);
  if (const auto [first, inserted] = merges_.emplace(pair, model_.merges.size()); !inserted) {
    model_.merges[first->second].merged = left_out;
    first->second = model_.merges.size();
  }
  model_.merges.push_back(merge);
}

// The library tokenizers (0.23, AddedVocabulary::add_tokens) passes over the ids of a file. A token of the vocabulary keeps its
// own, and others are counted on from the vocabulary's size. The second of two descriptions of one token counts.
void ModelBuilder::added(std::int64_t id, AddedToken token) {
  if (token.content.empty()) return;
  const auto [place, is_new] = added_.emplace(token.content, model_.added.size());
  const auto known = ids_.find(token.content);
  const bool beyond = known == ids_.end();
  std::string& bytes = slot(id);
  if (is_new && beyond && !bytes.empty()) {
    throw UserError(fmt::format("{}: the added token \"{}\" has id {}, which another token has", what_, token.content, id),
                    remedy);
  }
  token.id = !beyond ? known->second : is_new ? static_cast<std::int32_t>(ids_.size() + beyond_) : model_.added[place->second].id;
  if (token.id != id) {
    throw UserError(fmt::format("{}: the added token \"{}\" has id {}, but tokenizers, which passes over that, gives it {}",
                                what_, token.content, id, token.id),
                    "number added tokens as the vocabulary does, and those that it does not have from its size on");
  }
  if (!is_new) {
    model_.added[place->second] = std::move(token);
    return;
  }
  if (beyond) {
    bytes = token.content;
    ++beyond_;
  }
  model_.added.push_back(std::move(token));
}

Model ModelBuilder::take(bool byte_fallback) {
  model_.bytes.fill(-1);
  for (const auto& [text, id] : ids_) {
    const CodePoint point = pattern::character_at(text, 0);
    if (model_.byte_level || point.length != text.size() || point.value == pattern::no_character) continue;
    if (model_.characters.size() <= point.value) model_.characters.resize(point.value + 1, -1);
    model_.characters[point.value] = id;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(static_cast<unsigned char>(byte)));
    const auto found = ids_.find(model_.byte_level ? to_alphabet(text) : byte_fallback ? fmt::format("<0x{:02X}>", byte) : "");
    if (found == ids_.end()) {
      if (!model_.byte_level) continue;
      throw UserError(fmt::format("{}: no token is the single byte 0x{:02x}, so this is no byte-level BPE", what_, byte),
                      "use a byte-level BPE such as GPT-2's, Llama 3's or Qwen2's");
    }
    model_.bytes[byte] = found->second;
  }
  std::erase_if(model_.merges, [](const Merge& merge) { return merge.merged == left_out; });
  return std::move(model_);
}

}  // namespace lockstep::data::bpe
