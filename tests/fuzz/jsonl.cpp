// Lines of JSONL that are prepared: texts, and conversations of any form. What begins with [ is read as a list of rows.

#include <string>

#include "base/text/utf8.h"
#include "data/chat/answer_pair.h"
#include "data/chat/chat_teacher.h"
#include "data/text/documents.h"
#include "data/text/list_rows.h"
#include "fuzz/given.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {
namespace {

std::string rows_in(std::span<const std::byte> input) {
  if (!text_of(input).starts_with('[')) return std::string(text_of(input));
  const auto stream = data::rows_of_list(std::make_unique<Given>(input), "input");
  std::string rows(input.size() + 1, '\0');
  rows.resize(io::read_up_to(*stream, std::as_writable_bytes(std::span(rows))));
  ensure(rows.size() <= input.size(), "no byte becomes more than one");
  return rows;
}

}  // namespace

void read(std::span<const std::byte> input) {
  const auto document = [](const Json& object, data::RowForm form, data::ChatCounts& counts) -> std::optional<data::Document> {
    if (form == data::RowForm::plain) return data::plain_document(object);
    const data::ChatRules rules{.chat_template = "chatml", .length = 200, .too_long = data::TooLong::cut};
    std::optional<data::ChatText> chat = data::ChatTeacher(rules, form, {}, nullptr).teach(object, counts);
    if (!chat) return std::nullopt;
    for (const data::Taught& part : chat->taught) ensure(part.begin <= part.end && part.end <= chat->text.size(), "it is a part");
    return data::Document{.prompt = {}, .text = std::move(chat->text), .taught = std::move(chat->taught)};
  };
  const auto make = [&](const Json& object, data::ChatCounts& counts, std::vector<data::Document>& documents) {
    const data::RowForm form = data::form_of(object);
    if (form != data::RowForm::preferences) return data::add(documents, document(object, form, counts));
    const data::AnswerPair pair = data::answer_pair(object);
    for (const Json* answer : {&pair.chosen, &pair.rejected}) data::add(documents, document(*answer, pair.form, counts));
  };
  data::DocumentLines lines;
  data::read_documents(rows_in(input), make, lines);
  ensure(std::ssize(lines.documents) + std::ssize(lines.bad) <= 2 * lines.lines, "a line is two documents at most");
  for (const data::Document& made : lines.documents) {
    for (const std::string* text : {&made.prompt, &made.text}) {
      ensure(invalid_utf8_at(*text) == std::string::npos, "a document is valid UTF-8");
    }
  }
}

}  // namespace lockstep::fuzz
