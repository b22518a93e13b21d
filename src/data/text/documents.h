#pragma once

// JSONL: a document a line.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/chat/chat_teacher.h"

namespace lockstep::data {

struct Document {
  std::string prompt;                              ///< read, not taught; empty for a text and a conversation
  std::string text;                                ///< taught: the text or the completion
  std::optional<std::vector<Taught>> taught = {};  ///< of a conversation: what of the text is taught
};

/// The remedy for what is no row.
inline constexpr const char* row_forms =
    R"(a row is {"text": "..."}, {"prompt": "...", "completion": "..."} or a conversation: messages, ShareGPT or Alpaca)";

/// The object that a line holds; nothing for a blank one. Throws UserError, without a place, for anything else.
std::optional<Json> parse_line(std::string_view line);
/// A document of {"text": ...}, or of {"prompt": ..., "completion": ...}. Other members are ignored. Throws UserError, without a
/// place, for an object that has neither a text nor a prompt with its completion. Members of another type than a string are
/// refused, too.
Document plain_document(const Json& object);

struct BadLine {
  std::int64_t line = 0;  ///< number of the line in the piece, from 0
  Problem problem;
};

/// The lines of a piece of a file.
struct DocumentLines {
  std::vector<Document> documents;  ///< all documents that are not empty
  std::vector<BadLine> bad;         ///< the first few
  std::int64_t lines = 0;
  ChatCounts counts;
};

/// How many bad lines are told at once.
constexpr std::size_t most_bad_lines = 10;

/// Throws UserError for a row that says how it is to be taught: whether its answer is wanted ("label"), or how much it counts.
void refuse_verdict(const Json& row);

/// Adds a document, unless it is empty.
void add(std::vector<Document>& documents, std::optional<Document> document);

/// Makes an object's documents, behind those that are there. Throws UserError without a place.
using DocumentMaker = std::function<void(const Json& object, ChatCounts& counts, std::vector<Document>& documents)>;
/// Reads all lines of `piece`, which has whole ones, into `into`.
void read_documents(std::string_view piece, const DocumentMaker& make, DocumentLines& into);

}  // namespace lockstep::data
