#include "data/text/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/chat/chat_rows.h"

namespace lockstep::data {
namespace {

const std::string& text_of(const Json& value, std::string_view key) {
  if (!value.is_string()) throw UserError(fmt::format("\"{}\" is {}, not a string", key, kind_of(value)), row_forms);
  return value.string();
}

Json json_of(std::string_view line) {
  try {
    return Json::parse(line, "line");
  } catch (const UserError& error) {
    std::string message = error.problems().front().message;
    message.erase(0, std::string_view("line: ").size());
    if (const std::size_t place = message.find("(line 1, "); place != std::string::npos) message.erase(place + 1, 8);
    throw UserError(std::move(message), "mend it: JSON in UTF-8, without line breaks inside a string");
  }
}

}  // namespace

std::optional<Json> parse_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return std::nullopt;
  Json json = json_of(line);
  if (!json.is_object()) throw UserError(fmt::format("this is {}, not an object", kind_of(json)), row_forms);
  return json;
}

// TRL's KTOTrainer takes rows with "label", LLaMA-Factory's with "kto_tag".
void refuse_verdict(const Json& row) {
  for (const char* key : {"label", "kto_tag"}) {
    const Json* label = row.find(key);
    if (label == nullptr || !label->is_bool()) continue;
    throw UserError(fmt::format("its \"{}\" says whether the answer is wanted: every answer would be taught", key),
                    fmt::format("leave out rows whose {0} is false, and \"{0}\" of the others", key));
  }
  const Json* weight = row.find("weight");
  if (weight == nullptr || !weight->is_number() || weight->number() == 1) return;
  throw UserError(fmt::format("its \"weight\" is {}, and every row counts the same", weight->dump()),
                  "leave out rows that are not to be taught, and \"weight\" of the others");
}

Document plain_document(const Json& json) {
  const Json *text = member_of(json, "text"), *prompt = member_of(json, "prompt"), *completion = member_of(json, "completion");
  const bool pair = prompt != nullptr || completion != nullptr;
  if (text != nullptr && pair) throw UserError("it has a \"text\" and a prompt or completion: which is meant?", row_forms);
  if (text != nullptr) return Document{.prompt = {}, .text = text_of(*text, "text")};
  if (!pair) throw UserError("it has no \"text\", and no \"prompt\" with a \"completion\"", row_forms);
  if (prompt == nullptr) throw UserError("it has a \"completion\" without a \"prompt\"", row_forms);
  if (completion == nullptr) throw UserError("it has a \"prompt\" without a \"completion\"", row_forms);
  refuse_verdict(json);
  if (const std::string_view system = system_member(json); !system.empty() && json.at(system).dump() != "\"\"")
    throw UserError(fmt::format("its \"{}\" would not be read: prompt and completion are texts as they are", system),
                    "write it into the prompt, or the row as messages; leave it out where it is not for the model");
  return Document{.prompt = text_of(*prompt, "prompt"), .text = text_of(*completion, "completion")};
}

void add(std::vector<Document>& documents, std::optional<Document> document) {
  if (document && !(document->prompt.empty() && document->text.empty())) documents.push_back(std::move(*document));
}

void read_documents(std::string_view piece, const DocumentMaker& make, DocumentLines& into) {
  into.documents.clear();
  into.bad.clear();
  into.lines = 0;
  into.counts = {};
  for (std::size_t at = 0; at < piece.size(); ++into.lines) {
    const std::size_t end = std::min(piece.find('\n', at), piece.size());
    const std::string_view line = piece.substr(at, end - at);
    at = end + 1;
    try {
      const std::optional<Json> object = parse_line(line);
      if (object) make(*object, into.counts, into.documents);
    } catch (const UserError& error) {
      if (into.bad.size() < most_bad_lines) into.bad.push_back({into.lines, error.problems().front()});
    }
  }
}

}  // namespace lockstep::data
