#pragma once

// What the lines of a JSONL text are, and the documents that they make. All lines have the form of the first.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/prepare/prepare.h"
#include "data/text/documents.h"
#include "data/text/source.h"
#include "data/tokenizer_choice.h"

namespace lockstep::data {

class LineReader {
 public:
  /// `tokenizer` is that of the choice; null: its vocabulary comes from the text. Both outlive this, as `options` does. It ends
  /// texts with what its folder calls the end. Throws UserError for options that the form does not allow.
  LineReader(const PrepareOptions& options, const TokenizerChoice& choice, Tokenizer* tokenizer, const TextPieces& pieces);

  /// A DocumentMaker (text/documents.h).
  void make(const Json& object, ChatCounts& counts, std::vector<Document>& documents) const;
  /// Whether lines are pairs: each makes two documents, the chosen answer and the rejected one.
  bool pairs() const { return form_ == RowForm::preferences; }
  /// Whether prompts are taught, too.
  bool teaches_prompts() const { return options_.chats.train_on == TrainOn::all; }
  /// Whether not all is taught. `prompts`: some document has one.
  bool masks(bool prompts) const { return teacher_ || (prompts && !teaches_prompts()); }
  /// What was found, for people.
  std::string found(bool prompts) const;
  /// How conversations were written with the text's `tokenizer`; nothing where the text is none.
  std::optional<ChatFacts> chats(const Tokenizer& tokenizer) const;
  /// A line of text for each of the counts that is not 0.
  std::string told(const ChatCounts& counts) const;

 private:
  std::optional<Document> document(const Json& object, ChatCounts& counts) const;
  bool fits(const Document& text) const;
  void make_pair(const Json& object, ChatCounts& counts, std::vector<Document>& documents) const;

  const PrepareOptions& options_;
  RowForm form_, written_;  // of rows, and of the answers where they are pairs
  const Tokenizer* tokenizer_;
  std::optional<ChatTeacher> teacher_;  // of conversations; none: texts
};

/// Throws UserError for options that say something of conversations only. `documents`: the text is documents, other ones.
void refuse_options_of_chats(const PrepareOptions& options, bool documents);

/// The bad lines of a stream of pieces, collected until there are enough.
class BadLines {
 public:
  /// Adds the bad lines of the next piece of `file`. Throws UserError when there are enough.
  void add(const TextFile& file, const DocumentLines& lines);
  /// Throws UserError when there are any.
  void check();

 private:
  const TextFile* file_ = nullptr;
  std::int64_t before_ = 0;  // lines of the file
  std::vector<Problem> problems_;
};

}  // namespace lockstep::data
