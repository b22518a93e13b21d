// Lines of JSONL that are prepared.

#include "base/text/utf8.h"
#include "data/text/documents.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  data::DocumentLines lines;
  data::read_documents(text_of(input), lines);
  ensure(std::ssize(lines.documents) + std::ssize(lines.bad) <= lines.lines, "a line is a document at most");
  for (const data::Document& document : lines.documents) {
    for (const std::string* text : {&document.prompt, &document.text}) {
      ensure(invalid_utf8_at(*text) == std::string::npos, "a document is valid UTF-8");
    }
  }
}

}  // namespace lockstep::fuzz
