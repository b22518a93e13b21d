#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/text/utf8.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"
#include "data/bpe/words.h"
#include "data/plain_tokenizer_json.h"

namespace lockstep::data {
namespace {

void check_id(std::int32_t id, std::int64_t vocabulary) {
  if (id < 0 || id >= vocabulary) {
    throw UserError(fmt::format("token id {} is outside the vocabulary of {}", id, vocabulary),
                    "use the tokens and the model that were made together");
  }
}

class CharTokenizer final : public Tokenizer {
 public:
  explicit CharTokenizer(std::string characters) : characters_(std::move(characters)) {
    char32_t last = 0;
    for (std::size_t at = 0; at < characters_.size();) {
      const CodePoint point = code_point_at(characters_, at);
      if (point.length == 0 || (at > 0 && point.value <= last)) {
        throw UserError(fmt::format("the vocabulary of a char tokenizer is not ascending valid UTF-8 (byte {})", at),
                        "prepare the text again");
      }
      starts_.push_back(at);
      last = point.value;
      at += point.length;
    }
    if (starts_.empty()) throw UserError("the vocabulary of a char tokenizer is empty", "prepare the text again");
    ids_.assign(std::max<std::size_t>(last + 1, 128), -1);
    for (std::size_t id = 0; id < starts_.size(); ++id) {
      ids_[code_point_at(characters_, starts_[id]).value] = narrow<std::int32_t>(id);
    }
    starts_.push_back(characters_.size());
  }

  std::string_view name() const override { return "char"; }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(starts_.size()) - 1; }
  Json describe() const override {
    Json json;
    json.set("name", name());
    json.set("characters", characters_);
    return json;
  }
  std::string tokenizer_json() const override { return char_tokenizer_json(characters_).dump(); }
  std::string_view bytes(std::int32_t id) const override {
    check_id(id, vocabulary());
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(characters_).substr(starts_[i], starts_[i + 1] - starts_[i]);
  }

 private:
  std::size_t do_encode(std::string_view text, std::int32_t* ids, std::string& unknown, bool) const override {
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size();) {
      if (text.size() - at >= 8 && encode_eight(text.data() + at, ids + count)) {
        at += 8;
        count += 8;
        continue;
      }
      const CodePoint point = code_point_at(text, at);
      if (point.length == 0) {
        throw UserError(fmt::format("byte {} (0x{:02x}) is not valid UTF-8", at, static_cast<unsigned char>(text[at])),
                        "convert the text to UTF-8, or use the byte tokenizer");
      }
      const std::int32_t id = point.value < ids_.size() ? ids_[point.value] : -1;
      if (id >= 0) {
        ids[count++] = id;
      } else if (unknown.find(text.substr(at, point.length)) == std::string::npos) {
        unknown += text.substr(at, point.length);
      }
      at += point.length;
    }
    return count;
  }

  // Most text is ASCII: eight known characters at once, or false.
  bool encode_eight(const char* text, std::int32_t* ids) const {
    std::uint64_t word = 0;
    std::memcpy(&word, text, sizeof(word));
    if ((word & 0x8080808080808080U) != 0) return false;
    std::int32_t any = 0;
    for (int i = 0; i < 8; ++i) {
      ids[i] = ids_[static_cast<unsigned char>(text[i])];
      any |= ids[i];
    }
    return any >= 0;
  }

  std::string characters_;
  std::vector<std::size_t> starts_;  // of each character in characters_, and the end
  std::vector<std::int32_t> ids_;    // by code point; -1: not in the vocabulary
};

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i] = static_cast<char>(static_cast<unsigned char>(i));
  }
  std::string_view name() const override { return "byte"; }
  std::int64_t vocabulary() const override { return 256; }
  Json describe() const override {
    Json json;
    json.set("name", name());
    return json;
  }
  std::string tokenizer_json() const override { return byte_tokenizer_json().dump(); }
  std::string_view bytes(std::int32_t id) const override {
    check_id(id, vocabulary());
    return {all_.data() + id, 1};
  }

 private:
  std::size_t do_encode(std::string_view text, std::int32_t* ids, std::string&, bool) const override {
    for (std::size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
    return text.size();
  }

  std::array<char, 256> all_{};
};

}  // namespace

std::size_t Tokenizer::encode(std::string_view text, std::span<std::int32_t> ids, std::string& unknown, bool goes_on) const {
  ensure(ids.size() >= room(text.size()), "there is room for every token");
  return do_encode(text, ids.data(), unknown, goes_on);
}

std::size_t Tokenizer::boundary(std::string_view text, std::size_t from) const { return bpe::word_boundary(text, from); }

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += bytes(id);
  return text;
}

std::unique_ptr<Tokenizer> make_char_tokenizer(std::string characters) {
  return std::make_unique<CharTokenizer>(std::move(characters));
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> make_tokenizer(const Json& description) {
  const std::string& name = description.at("name").string();
  if (name == "char") return make_char_tokenizer(description.at("characters").string());
  if (name == "byte") return make_byte_tokenizer();
  if (name == "bpe" || name == "unigram") {
    const std::string& text = description.at("tokenizer_json").string();
    const std::string what = "tokenizer.json";
    auto made = bpe::make_bpe_tokenizer(bpe::model_from_json(Json::parse(text, what), what), text, bpe::AddedTokens::found);
    if (const Json* end = description.find(bpe::told_end)) made->end_documents_with(static_cast<std::int32_t>(end->integer()));
    return made;
  }
  throw UserError(fmt::format("tokenizer \"{}\" is not known", name), "known are char, byte, bpe and unigram");
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text, std::string& unknown, bool goes_on) {
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  ids.resize(tokenizer.encode(text, ids, unknown, goes_on));
  return ids;
}

std::optional<std::int32_t> token_of(const Tokenizer& tokenizer, std::string_view text) {
  std::string unknown;
  const std::vector<std::int32_t> ids = ids_of(tokenizer, text, unknown, true);
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

std::optional<std::int32_t> document_end(const Tokenizer& tokenizer) {
  if (const std::optional<std::int32_t> end = tokenizer.end_of_text()) return end;
  return token_of(tokenizer, "\n");
}

namespace {

bool begins_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> begin) {
  return ids.size() >= begin.size() && std::ranges::equal(ids.first(begin.size()), begin);
}

}  // namespace

std::string decode_prompt(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt) {
  const std::span<const std::int32_t> begin = tokenizer.begin_of_text();
  return tokenizer.decode(begins_with(prompt, begin) ? prompt.subspan(begin.size()) : prompt);
}

void begin_prompt(const Tokenizer& tokenizer, std::vector<std::int32_t>& ids) {
  const std::span<const std::int32_t> begin = tokenizer.begin_of_text();
  if (!begins_with(ids, begin)) ids.insert(ids.begin(), begin.begin(), begin.end());
}

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt, std::int64_t vocabulary, Log& log) {
  std::string unknown;
  std::vector<std::int32_t> ids = ids_of(tokenizer, prompt, unknown);
  if (!ids.empty()) begin_prompt(tokenizer, ids);
  if (!unknown.empty()) {
    log.warning(fmt::format("dropped from the prompt, because the vocabulary does not have them: {}", visible(unknown)));
  }
  const auto above = std::ranges::find_if(ids, [&](std::int32_t id) { return id >= vocabulary; });
  if (above == ids.end()) return ids;
  throw UserError(fmt::format("the prompt's {} is token {} of the tokenizer, but the model has a vocabulary of {}",
                              Json(tokenizer.bytes(*above)).dump(), *above, format_count(vocabulary)),
                  "use the tokenizer that the model was trained with, or another prompt");
}

std::optional<std::int32_t> other_meaning(const Tokenizer& one, const Tokenizer& other) {
  for (std::int32_t id = 0; id < std::min(one.vocabulary(), other.vocabulary()); ++id) {
    if (one.has(id) && other.has(id) && one.bytes(id) != other.bytes(id)) return id;
  }
  return std::nullopt;
}

std::vector<std::int32_t> missing_ids(const Tokenizer& tokenizer, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocabulary; ++id) {
    if (!tokenizer.has(id)) ids.push_back(id);
  }
  return ids;
}

}  // namespace lockstep::data
