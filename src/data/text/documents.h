#pragma once

// JSONL: a document a line, {"text": ...}, or {"prompt": ..., "completion": ...} of which only the completion is taught.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lockstep::data {

struct Document {
  std::string prompt;  ///< read, not taught; empty for a text
  std::string text;    ///< taught: the text or the completion
};

/// What a line holds; nothing for a blank one. Other members are ignored. Throws UserError, without a place, for what is no JSON
/// object, has neither a text nor a prompt with its completion, or has another type for them than a string.
std::optional<Document> parse_document(std::string_view line);

struct BadLine {
  std::int64_t line = 0;  ///< of the piece, from 0
  Problem problem;
};

/// The lines of a piece of a file.
struct DocumentLines {
  std::vector<Document> documents;  ///< without those that are empty
  std::vector<BadLine> bad;         ///< the first few
  std::int64_t lines = 0;
};

/// How many bad lines are told at once.
constexpr std::size_t most_bad_lines = 10;

/// All lines of `piece`, which has whole ones, into `into`.
void read_documents(std::string_view piece, DocumentLines& into);

}  // namespace lockstep::data
