#include "data/bpe/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/bpe/added_tokens.h"
#include "data/bpe/merges.h"
#include "data/bpe/normalizer.h"
#include "data/bpe/pre_tokenizer.h"
#include "data/bpe/unigram.h"
#include "data/bpe/word_cache.h"

namespace lockstep::data::bpe {
namespace {

// What one encode() at a time works with.
struct Workspace {
  WordCache cache;
  MergeScratch merging;
  NormalScratch normal;
  SplitScratch split;
  UnigramScratch unigram;

  /// Gives back what a text took.
  void forget() {
    merging = {};
    normal = {};
    split = {};
    unigram = {};
  }
};
constexpr std::size_t most_kept = std::size_t{1} << 20;  // a word of so many bytes takes some hundred times as many

// Lends a workspace to each thread that encodes, with the words that it remembers.
class Workspaces {
 public:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace>();
    std::unique_ptr<Workspace> workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give(std::unique_ptr<Workspace> workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

// What published vocabularies call the end of a document.
std::optional<std::int32_t> end_of_text(const std::vector<AddedToken>& added) {
  for (const std::string_view name :
       {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"}) {
    const auto found = std::ranges::find(added, name, &AddedToken::content);
    if (found != added.end()) return found->id;
  }
  return std::nullopt;
}

// The tokens that are looked for in texts, as they stand there.
std::vector<AddedToken> sought(std::vector<AddedToken> tokens, const Normalizer& normalizer) {
  for (AddedToken& token : tokens) {
    if (token.normalized) token.content = normalizer(token.content);
  }
  std::erase_if(tokens, [](const AddedToken& token) { return token.content.empty(); });
  return tokens;
}

std::vector<AddedToken> those(std::vector<AddedToken> tokens, bool normalized) {
  std::erase_if(tokens, [&](const AddedToken& token) { return token.normalized != normalized; });
  return tokens;
}

std::vector<bool> special_ids(const Model& model) {
  std::vector<bool> special(model.tokens.size());
  for (const AddedToken& token : model.added) special[static_cast<std::size_t>(token.id)] = token.special;
  return special;
}

// The most ids of a text: one for each character that is a token, else one for each byte.
std::size_t most_ids(const Model& model, std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const CodePoint point = pattern::character_at(text, at);
    length = point.length;
    const bool known = point.value < model.characters.size() && model.characters[point.value] >= 0;
    count += known ? 1 : length;
  }
  return count;
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(Model model, std::string json, AddedTokens added)
      : byte_level_(model.byte_level),
        normalizer_(std::move(model.normalizer), [&](std::string_view text) { return most_ids(model, text); }),
        pre_tokenizer_(std::move(model.splits)),
        blank_ids_(most_ids(model, pre_tokenizer_.replacement())),
        merges_(model),
        unigram_(model.scores.empty() ? nullptr : std::make_unique<Unigram>(model)),
        decoder_(std::move(model.decoder)),
        end_(bpe::end_of_text(model.added)),
        front_(std::move(model.front)),
        special_(special_ids(model)),
        written_(added == AddedTokens::ordinary ? std::vector<AddedToken>() : std::move(model.added)),
        json_(std::move(json)),
        tokens_(std::move(model.tokens)) {
    find_words(model);
    boundaries_.emplace(written_and_sought(), [&](char a, char b) { return may_cut(a, b); });
    if (byte_level_) return;
    for (const std::string& token : tokens_) shown_.push_back(decoder_.bytes(token, false));
    for (const AddedToken& token : added_) shown_[static_cast<std::size_t>(token.id)] = decoder_.bytes(token.content, false);
  }

  std::string_view name() const override { return unigram_ ? "unigram" : "bpe"; }
  std::int64_t vocabulary() const override { return std::ssize(tokens_); }
  Json describe() const override {
    Json json;
    json.set("name", name());
    json.set("tokenizer_json", json_);
    if (told_end_) json.set(told_end, *end_);
    return json;
  }
  std::string tokenizer_json() const override { return json_; }
  std::string_view bytes(std::int32_t id) const override {
    if (id < 0 || id >= vocabulary()) {
      throw UserError(fmt::format("token id {} is outside the vocabulary of {}", id, vocabulary()),
                      "use the tokens and the model that were made together");
    }
    return (byte_level_ ? tokens_ : shown_)[static_cast<std::size_t>(id)];
  }
  bool has(std::int32_t id) const override { return Tokenizer::has(id) && !tokens_[static_cast<std::size_t>(id)].empty(); }
  bool is_special(std::int32_t id) const override { return special_[static_cast<std::size_t>(id)]; }
  std::optional<std::int32_t> end_of_text() const override { return end_; }
  void end_documents_with(std::int32_t id) override {
    if (!has(id))
      throw UserError(fmt::format("\"{}\" {} is no token of a vocabulary of {}", told_end, id, vocabulary()),
                      "prepare the text again");
    told_end_ = end_ != id;
    end_ = id;
  }
  std::span<const std::int32_t> begin_of_text() const override { return front_; }
  std::size_t room(std::size_t bytes) const override {
    // Without added tokens there is one part, and each of others has a byte.
    const std::size_t parts = written_.empty() ? 1 : bytes + 1;
    const std::size_t whole = bytes * normalizer_.growth() + parts * normalizer_.prefix();
    const std::size_t pieces = parts > 1 || pre_tokenizer_.prefixes_pieces() ? whole + 1 : 1;
    return whole * pre_tokenizer_.growth(blank_ids_) + pieces * pre_tokenizer_.prefix(blank_ids_);
  }
  std::size_t boundary(std::string_view text, std::size_t from) const override { return boundaries_->find(text, from); }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text = Tokenizer::decode(ids);
    if (byte_level_ || ids.empty()) return text;
    const auto added = std::ranges::find(added_, ids.front(), &AddedToken::id);
    const std::string& first = added != added_.end() ? added->content : tokens_[static_cast<std::size_t>(ids.front())];
    text.replace(0, bytes(ids.front()).size(), decoder_.bytes(first, true));
    for (std::int64_t i = 0; i < decoder_.start && text.starts_with(decoder_.stripped); ++i)
      text.erase(0, decoder_.stripped.size());
    for (std::int64_t i = 0; i < decoder_.stop && text.ends_with(decoder_.stripped); ++i) {
      text.resize(text.size() - decoder_.stripped.size());
    }
    return text;
  }

 private:
  // What the model always sees of a blank behind a letter.
  void find_blank() {
    for (const char32_t image : byte_level_ ? std::vector<char32_t>() : normalizer_.images('a', ' ')) {
      const char32_t seen = pre_tokenizer_.cut('a', image).seen;
      std::string text;
      if (seen != pattern::no_character) append_utf8(text, seen);
      if (!blank_.empty() && text != blank_) text.clear();
      blank_ = text;
      if (text.empty()) return;
    }
  }
  // Words that are one token, and whether a text may be cut before each blank: where no merge has one behind another character.
  void find_words(const Model& model) {
    for (std::size_t id = 0; model.whole_words && id < tokens_.size(); ++id) {
      if (model.words[id]) whole_words_.emplace(tokens_[id], static_cast<std::int32_t>(id));
    }
    find_blank();
    cuts_blanks_ = !blank_.empty() && !unigram_ && !model.whole_words && most_ids(model, blank_) == 1;
    // Neighbours that are not known are one token, and a blank may be one of them.
    const char32_t blank = blank_.empty() ? 0 : pattern::character_at(blank_, 0).value;
    const bool known = blank < model.characters.size() && model.characters[blank] >= 0;
    cuts_blanks_ = cuts_blanks_ && (known || !model.fuse_unknown);
    for (const Merge& merge : model.merges) {
      const std::string& token = tokens_[static_cast<std::size_t>(merge.merged)];
      for (std::size_t at = cuts_blanks_ ? token.find(blank_, 1) : token.npos; at != token.npos;
           at = token.find(blank_, at + 1)) {
        before_blanks_.set(static_cast<unsigned char>(token[at - 1]));
      }
    }
  }
  std::vector<AddedToken> written_and_sought() const {
    std::vector<AddedToken> all = written_;
    all.insert(all.end(), added_.begin(), added_.end());
    return all;
  }
  bool may_cut(char a, char b) const {
    using Place = PreTokenizer::Cut::Place;
    const std::vector<char32_t> images = normalizer_.images(static_cast<char32_t>(a), static_cast<char32_t>(b));
    return !images.empty() && std::ranges::all_of(images, [&](char32_t image) {
      std::string both(1, a);
      if (image != pattern::no_character) append_utf8(both, image);
      const auto holds = [&](const AddedToken& token) {
        return token.normalized && token.content.find(both) != std::string::npos;
      };
      if (std::ranges::any_of(added_, holds)) return false;
      const PreTokenizer::Cut cut = pre_tokenizer_.cut(static_cast<char32_t>(a), image);
      if (cut.place != Place::inside) return cut.place == Place::apart;
      return cuts_blanks_ && cut.seen == pattern::character_at(blank_, 0).value &&
             !before_blanks_.test(static_cast<unsigned char>(a));
    });
  }

  std::size_t do_encode(std::string_view text, std::int32_t* ids, std::string& unknown, bool goes_on) const override {
    std::unique_ptr<Workspace> workspace = workspaces_.take();
    std::int32_t* end = ids;
    in_text_.split(text, [&](std::string_view part, std::int32_t id) {
      if (id >= 0) {
        *end++ = id;
      } else {
        const bool begins = part.data() == text.data();
        end = encode_part(part, begins && !goes_on, begins && goes_on, end, *workspace);
      }
    });
    for (std::size_t at = 0; at < workspace->merging.unknown.size();) {
      const std::size_t length = pattern::character_at(workspace->merging.unknown, at).length;
      const std::string character = workspace->merging.unknown.substr(at, length);
      if (unknown.find(character) == std::string::npos) unknown += character;
      at += length;
    }
    workspace->merging.unknown.clear();
    if (text.size() > most_kept) workspace->forget();
    workspaces_.give(std::move(workspace));
    return static_cast<std::size_t>(end - ids);
  }

  // A part of the text in which no token stands that is sought before it is normalised.
  std::int32_t* encode_part(std::string_view text, bool first, bool goes_on, std::int32_t* ids, Workspace& workspace) const {
    text = normalizer_(text, goes_on, workspace.normal);
    const std::size_t front = first ? workspace.normal.front : 0;
    in_normal_text_.split(text, [&](std::string_view part, std::int32_t id) {
      if (id >= 0) {
        *ids++ = id;
      } else {
        const auto before = static_cast<std::size_t>(part.data() - text.data());
        pre_tokenizer_.split(part, front - std::min(front, before), workspace.split,
                             [&](std::string_view word) { ids = encode_parts(word, ids, workspace); });
      }
    });
    return ids;
  }

  // A long word, in which no merge reaches over some of the blanks.
  std::int32_t* encode_parts(std::string_view word, std::int32_t* ids, Workspace& workspace) const {
    if (!cuts_blanks_) return encode_cached(word, ids, workspace);
    std::size_t begin = 0;
    for (std::size_t at = word.find(blank_, 1); at != std::string_view::npos; at = word.find(blank_, at + 1)) {
      if (before_blanks_.test(static_cast<unsigned char>(word[at - 1]))) continue;
      ids = encode_cached(word.substr(begin, at - begin), ids, workspace);
      begin = at;
    }
    return encode_cached(word.substr(begin), ids, workspace);
  }

  std::int32_t* encode_cached(std::string_view word, std::int32_t* ids, Workspace& workspace) const {
    if (word.size() > WordCache::longest_word) return ids + encode_word(word, ids, workspace);
    const WordCache::Key key = WordCache::key_of(word);
    WordCache::Entry& entry = workspace.cache.place(key);
    if (entry.key == key) return std::copy_n(entry.ids.begin(), entry.count, ids);
    const std::size_t count = encode_word(word, ids, workspace);
    if (count <= WordCache::most_ids && workspace.merging.unknown.empty()) {
      entry.key = key;
      entry.count = static_cast<std::uint8_t>(count);
      std::copy_n(ids, count, entry.ids.begin());
    }
    return ids + count;
  }

  std::size_t encode_word(std::string_view word, std::int32_t* ids, Workspace& workspace) const {
    if (unigram_) return unigram_->encode(word, ids, workspace.unigram, workspace.merging.unknown);
    if (!whole_words_.empty()) {
      if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
        *ids = whole->second;
        return 1;
      }
    }
    return merges_.encode(word, ids, workspace.merging);
  }

  bool byte_level_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::size_t blank_ids_;  // of what a pre-tokenizer puts in place of a blank
  std::string blank_;      // what the model sees of one; empty: not known, or bytes
  Merges merges_;
  std::unique_ptr<Unigram> unigram_;  // null: it is a BPE
  DecodeRule decoder_;
  std::optional<std::int32_t> end_;
  bool told_end_ = false;
  std::vector<std::int32_t> front_;
  std::vector<bool> special_;                                     // by id
  std::vector<AddedToken> written_;                               // with the content that the file has
  std::vector<AddedToken> added_{sought(written_, normalizer_)};  // and with that which is sought
  AddedTokenFinder in_text_{those(added_, false)}, in_normal_text_{those(added_, true)};
  std::optional<Boundaries> boundaries_;
  std::string json_;
  std::vector<std::string> tokens_;
  std::vector<std::string> shown_;                                  // their bytes, of a vocabulary that is not byte-level
  std::unordered_map<std::string_view, std::int32_t> whole_words_;  // views of tokens_
  bool cuts_blanks_ = false;                                        // whether words may be cut before blanks
  std::bitset<256> before_blanks_;                                  // by the last byte before a blank: a merge may reach over it
  mutable Workspaces workspaces_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(Model model, std::string json, AddedTokens added) {
  return std::make_unique<BpeTokenizer>(std::move(model), std::move(json), added);
}

}  // namespace lockstep::data::bpe
