// Lines of JSONL that are prepared: texts, and conversations of any form.

#include "base/text/utf8.h"
#include "data/chat/chat_teacher.h"
#include "data/text/documents.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

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
    for (const Json* answer : {&pair.chosen, &pair.rejected})
      data::add(documents, document(*answer, pair.plain ? data::RowForm::plain : data::RowForm::completion, counts));
  };
  data::DocumentLines lines;
  data::read_documents(text_of(input), make, lines);
  ensure(std::ssize(lines.documents) + std::ssize(lines.bad) <= 2 * lines.lines, "a line is two documents at most");
  for (const data::Document& made : lines.documents) {
    for (const std::string* text : {&made.prompt, &made.text}) {
      ensure(invalid_utf8_at(*text) == std::string::npos, "a document is valid UTF-8");
    }
  }
}

}  // namespace lockstep::fuzz
