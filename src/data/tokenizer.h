#pragma once

// Text to token ids and back. One small interface: what a model is trained on is described by tokens.json
// (token_description.h), and a tokenizer is rebuilt from its part of it.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/log.h"

namespace lockstep::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// "char", "byte", "bpe", "unigram".
  virtual std::string_view name() const = 0;
  /// Ids are 0 .. vocabulary() - 1.
  virtual std::int64_t vocabulary() const = 0;
  /// Everything that make_tokenizer() needs: {"name": ...}.
  virtual Json describe() const = 0;
  /// The text of a tokenizer.json with which Hugging Face's library gives the same ids.
  virtual std::string tokenizer_json() const = 0;
  /// The bytes of one token, which need not be whole characters: output may be streamed token by token. Valid as long as
  /// the tokenizer. Throws UserError when there is no such id.
  virtual std::string_view bytes(std::int32_t id) const = 0;

  /// Whether an id below vocabulary() stands for anything: published vocabularies have gaps.
  virtual bool has(std::int32_t id) const { return id >= 0 && id < vocabulary(); }

  /// The token that ends a document; nothing when the vocabulary has none for it.
  virtual std::optional<std::int32_t> end_of_text() const { return std::nullopt; }

  /// Makes a token the one that ends a document, in describe(), too. Throws UserError for one that the vocabulary does not have.
  virtual void end_documents_with(std::int32_t) {}

  /// The tokens that a text begins with where the tokenizer's post-processor says so ("<bos>"): encode() leaves them out.
  virtual std::span<const std::int32_t> begin_of_text() const { return {}; }

  /// The most ids that a text of so many bytes may have.
  virtual std::size_t room(std::size_t bytes) const { return bytes; }

  /// Writes the ids of `text` to `ids`, which has room(text.size()) places, and returns their number. What the
  /// vocabulary cannot say is left out and appended to `unknown`, each character once. `goes_on`: the text is the rest of one
  /// that was cut, and gets no prefix. Throws UserError with the byte offset when the text is not valid for this tokenizer.
  /// Thread-safe.
  std::size_t encode(std::string_view text, std::span<std::int32_t> ids, std::string& unknown, bool goes_on = false) const;

  /// The first place from `from` > 0 on where a text may be cut so that its parts have the ids of the whole. The result is npos
  /// when no such place is found.
  virtual std::size_t boundary(std::string_view text, std::size_t from) const;

  /// The text of `ids`: their bytes, but for the blank that some tokenizers put before a text.
  virtual std::string decode(std::span<const std::int32_t> ids) const;

  /// Whether an id is a mark of the vocabulary's own and no text, as "<|im_start|>" (tokenizer.json: "special").
  virtual bool is_special(std::int32_t) const { return false; }

 private:
  virtual std::size_t do_encode(std::string_view text, std::int32_t* ids, std::string& unknown, bool goes_on) const = 0;
};

/// A token is a code point; `characters` holds the vocabulary, valid UTF-8 in ascending order without repetition (else
/// UserError).
std::unique_ptr<Tokenizer> make_char_tokenizer(std::string characters);
/// A token is a byte.
std::unique_ptr<Tokenizer> make_byte_tokenizer();
/// The tokenizer that describe() described. Throws UserError for one that is not known.
std::unique_ptr<Tokenizer> make_tokenizer(const Json& description);

/// The ids of a text, as Tokenizer::encode() has them.
std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text, std::string& unknown, bool goes_on = false);
/// The one token that a text is; nothing where it is several, or none.
std::optional<std::int32_t> token_of(const Tokenizer& tokenizer, std::string_view text);

/// The token that ends a document of JSONL: the end of a text, or a line feed where the vocabulary has no token for it. Nothing
/// for a vocabulary without either.
std::optional<std::int32_t> document_end(const Tokenizer& tokenizer);

/// Puts what a text begins with before a prompt, unless the prompt begins so itself.
void begin_prompt(const Tokenizer& tokenizer, std::vector<std::int32_t>& ids);

/// The ids of a prompt for a model that knows the ids below `vocabulary`. Those that a text begins with come first. Characters
/// outside the tokenizer's are dropped with one warning that lists them. Throws UserError for a token that the model does not
/// know, and for a text that is not valid for the tokenizer.
std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt, std::int64_t vocabulary, Log& log);

/// A prompt's text, without what every text begins with.
std::string decode_prompt(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt);

/// The first id of both that stands for another text in each; nothing where there is none.
std::optional<std::int32_t> other_meaning(const Tokenizer& one, const Tokenizer& other);

/// The ids of a model of `vocabulary` that no text has: a model's vocabulary may be padded.
std::vector<std::int32_t> missing_ids(const Tokenizer& tokenizer, std::int64_t vocabulary);

}  // namespace lockstep::data
