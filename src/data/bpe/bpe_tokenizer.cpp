#include "data/bpe/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/bpe/added_tokens.h"
#include "data/bpe/merges.h"
#include "data/bpe/nfc.h"
#include "data/bpe/word_cache.h"

namespace lockstep::data::bpe {
namespace {

// What one encode() at a time works with.
struct Workspace {
  WordCache cache;
  MergeScratch merging;
  std::string normal;
};

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
  for (const std::string_view name : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
    const auto found = std::ranges::find(added, name, &AddedToken::content);
    if (found != added.end()) return found->id;
  }
  return std::nullopt;
}

// The tokens that are looked for in texts, as they stand there.
std::vector<AddedToken> sought(std::vector<AddedToken> tokens, AddedTokens kind, const Nfc* nfc) {
  if (kind == AddedTokens::ordinary) return {};
  std::string normal;
  for (AddedToken& token : tokens) {
    if (nfc != nullptr && token.normalized) token.content = std::string((*nfc)(token.content, normal));
  }
  return tokens;
}

std::vector<AddedToken> those(std::vector<AddedToken> tokens, bool normalized) {
  std::erase_if(tokens, [&](const AddedToken& token) { return token.normalized != normalized; });
  return tokens;
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(Model model, std::string json, AddedTokens added)
      : words_(model.pattern),
        merges_(model),
        nfc_(model.nfc ? std::make_unique<Nfc>() : nullptr),
        end_(bpe::end_of_text(model.added)),
        added_(sought(std::move(model.added), added, nfc_.get())),
        json_(std::move(json)),
        tokens_(std::move(model.tokens)) {
    if (!model.whole_words) return;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (model.words[id]) whole_words_.emplace(tokens_[id], static_cast<std::int32_t>(id));
    }
  }

  std::string_view name() const override { return "bpe"; }
  std::int64_t vocabulary() const override { return std::ssize(tokens_); }
  Json describe() const override {
    Json json;
    json.set("name", name());
    json.set("tokenizer_json", json_);
    return json;
  }
  std::string tokenizer_json() const override { return json_; }
  std::string_view bytes(std::int32_t id) const override {
    if (id < 0 || id >= vocabulary()) {
      throw UserError(fmt::format("token id {} is outside the vocabulary of {}", id, vocabulary()),
                      "use the tokens and the model that were made together");
    }
    return tokens_[static_cast<std::size_t>(id)];
  }
  bool has(std::int32_t id) const override { return Tokenizer::has(id) && !tokens_[static_cast<std::size_t>(id)].empty(); }
  std::optional<std::int32_t> end_of_text() const override { return end_; }
  std::size_t room(std::size_t bytes) const override { return nfc_ ? bytes * Nfc::most_growth : bytes; }
  std::size_t boundary(std::string_view text, std::size_t from) const override { return boundaries_.find(text, from); }

 private:
  std::size_t do_encode(std::string_view text, std::int32_t* ids, std::string&) const override {
    std::unique_ptr<Workspace> workspace = workspaces_.take();
    std::int32_t* end = ids;
    in_text_.split(text, [&](std::string_view part, std::int32_t id) {
      if (id >= 0) {
        *end++ = id;
      } else {
        end = encode_part(part, end, *workspace);
      }
    });
    workspaces_.give(std::move(workspace));
    return static_cast<std::size_t>(end - ids);
  }

  // A part of the text in which no token stands that is sought before it is normalised.
  std::int32_t* encode_part(std::string_view text, std::int32_t* ids, Workspace& workspace) const {
    if (nfc_) text = (*nfc_)(text, workspace.normal);
    in_normal_text_.split(text, [&](std::string_view part, std::int32_t id) {
      if (id >= 0) {
        *ids++ = id;
      } else {
        ids = encode_words(part, ids, workspace);
      }
    });
    return ids;
  }

  std::int32_t* encode_words(std::string_view text, std::int32_t* ids, Workspace& workspace) const {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = words_.end(text, at);
      const std::string_view word = text.substr(at, end - at);
      at = end;
      if (word.size() > WordCache::longest_word) {
        ids += encode_word(word, ids, workspace.merging);
        continue;
      }
      const WordCache::Key key = WordCache::key_of(word);
      WordCache::Entry& entry = workspace.cache.place(key);
      if (entry.key == key) {
        ids = std::copy_n(entry.ids.begin(), entry.count, ids);
        continue;
      }
      const std::size_t count = encode_word(word, ids, workspace.merging);
      if (count <= WordCache::most_ids) {
        entry.key = key;
        entry.count = static_cast<std::uint8_t>(count);
        std::copy_n(ids, count, entry.ids.begin());
      }
      ids += count;
    }
    return ids;
  }

  std::size_t encode_word(std::string_view word, std::int32_t* ids, MergeScratch& scratch) const {
    if (!whole_words_.empty()) {
      if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
        *ids = whole->second;
        return 1;
      }
    }
    return merges_.encode(word, ids, scratch);
  }

  Words words_;
  Merges merges_;
  std::unique_ptr<Nfc> nfc_;  // null: texts are taken as they are
  std::optional<std::int32_t> end_;
  std::vector<AddedToken> added_;  // with the content that is sought
  AddedTokenFinder in_text_{those(added_, false)}, in_normal_text_{those(added_, true)};
  Boundaries boundaries_{added_};
  std::string json_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> whole_words_;  // views of tokens_
  mutable Workspaces workspaces_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(Model model, std::string json, AddedTokens added) {
  return std::make_unique<BpeTokenizer>(std::move(model), std::move(json), added);
}

}  // namespace lockstep::data::bpe
