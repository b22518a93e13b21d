#include "data/chat/answer_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace lockstep::data {
namespace {

[[noreturn]] void refuse(std::string message) {
  throw UserError(std::move(message), fmt::format("a row is {}", example_of(RowForm::preferences)));
}

bool has(const Json& object, const char* key) { return member_of(object, key) != nullptr; }

// The messages of a text as Anthropic's HH-RLHF has it, "\n\nHuman: ...\n\nAssistant: ..."; of another text none.
Json::Array turns_in(std::string_view text) {
  constexpr std::string_view human = "\n\nHuman:", assistant = "\n\nAssistant:";
  Json::Array turns;
  while (text.starts_with(human) || text.starts_with(assistant)) {
    const bool asks = text.starts_with(human);
    text.remove_prefix(asks ? human.size() : assistant.size());
    if (text.starts_with(' ')) text.remove_prefix(1);
    const std::size_t end = std::min({text.find(human), text.find(assistant), text.size()});
    turns.emplace_back(Json::Object{{"role", asks ? "user" : "assistant"}, {"content", text.substr(0, end)}});
    text.remove_prefix(end);
  }
  return turns;
}

// The messages that are asked, as a list: TRL's "prompt", LLaMA-Factory's "conversations", axolotl's "messages".
const Json* asked(const Json& row) {
  for (const char* key : {"prompt", "conversations", "messages"}) {
    if (const Json* list = member_of(row, key)) return list->is_array() ? list : nullptr;
  }
  return nullptr;
}

// An answer as messages, or as the text that it is. LLaMA-Factory and axolotl (prompt_strategies/dpo/chat_template.py) have one
// message for each answer; axolotl's may be its text.
Json answer_of(const Json& object, const char* name) {
  const Json& given = object.at(name);
  if (given.is_object()) return Json::Array{given};
  if (!given.is_string() && !given.is_array()) refuse(fmt::format("\"{}\" is {}, no text and no list", name, kind_of(given)));
  if (given.is_string() && asked(object) != nullptr)
    return Json::Array{Json::Object{{"role", "assistant"}, {"content", given.string()}}};
  Json::Array turns = given.is_string() && !has(object, "prompt") ? turns_in(given.string()) : Json::Array{};
  return turns.empty() ? given : Json(std::move(turns));
}

// The members of a row but its answers. OpenAI has those of the prompt in "input".
Json without_answers(const Json& object, const AnswerNames& names) {
  Json::Object rest;
  for (const auto& [key, value] : object.object()) {
    if (key == "input" && value.is_object()) {
      for (const auto& [inner, of_prompt] : value.object()) rest.emplace_back(inner == "messages" ? "prompt" : inner, of_prompt);
    } else if (key != names.chosen && key != names.rejected) {
      rest.emplace_back(key, value);
    }
  }
  return rest;
}

std::size_t same_start(const Json::Array& a, const Json::Array& b) {
  std::size_t same = 0;
  while (same < std::min(a.size(), b.size()) && a[same].dump() == b[same].dump()) ++same;
  return same;
}

}  // namespace

AnswerNames names_of_answers(const Json& object) {
  if (has(object, "chosen") && has(object, "rejected")) return {"chosen", "rejected"};
  return {"preferred_output", "non_preferred_output"};  // its API, FineTunePreferenceRequestInput
}

RowForm form_of_answers(const Json& object) {
  const Json& answer = object.at(names_of_answers(object).chosen);
  if (!answer.is_string() || asked(object) != nullptr) return RowForm::completion;
  if (!has(object, "prompt") && !turns_in(answer.string()).empty()) return RowForm::completion;
  return !has(object, "prompt") && has(object, "instruction") ? RowForm::alpaca : RowForm::plain;
}

AnswerPair answer_pair(const Json& object) {
  const AnswerNames names = names_of_answers(object);
  const std::string both = fmt::format("\"{}\" and \"{}\"", names.chosen, names.rejected);
  Json chosen = answer_of(object, names.chosen), rejected = answer_of(object, names.rejected);
  if (chosen.is_string() != rejected.is_string()) refuse(both + " are a text and a list");
  if (chosen.dump() == rejected.dump()) refuse(both + " are the same");
  const RowForm form = form_of_answers(object);
  Json row = without_answers(object, names), other = row;
  const Json* prompt = member_of(row, "prompt");
  if (form == RowForm::plain && (prompt == nullptr || !prompt->is_string()))
    refuse(fmt::format("\"prompt\" is no text, as {} are", both));
  if (form == RowForm::completion) {
    prompt = asked(row);
    const Json::Array one = chosen.array(), two = rejected.array();
    Json::Array before;
    if (prompt != nullptr) {
      before = prompt->array();
      if (!before.empty() && same_start(before, one) == before.size())
        refuse(fmt::format("\"{}\" begins with all messages of its prompt, which would be read twice", names.chosen));
    } else {
      const std::size_t same = same_start(one, two);
      if (same == 0) refuse(both + " begin with different messages, and there is no list \"prompt\"");
      if (same == std::min(one.size(), two.size())) refuse(fmt::format("one of {} has no answer of its own", both));
      const auto count = static_cast<std::ptrdiff_t>(same);
      before.assign(one.begin(), one.begin() + count);
      chosen = Json::Array(one.begin() + count, one.end());
      rejected = Json::Array(two.begin() + count, two.end());
    }
    row.set("prompt", before);
    other.set("prompt", std::move(before));
  }
  const char* const key = form == RowForm::alpaca ? "output" : "completion";
  row.set(key, std::move(chosen));
  other.set(key, std::move(rejected));
  return {std::move(row), std::move(other), form};
}

}  // namespace lockstep::data
