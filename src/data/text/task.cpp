#include "data/text/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/text/trimmed.h"
#include "base/units.h"
#include "data/chat/jinja/python_text.h"
#include "data/text/documents.h"
#include "data/text/source.h"
#include "io/file.h"
#include "io/stream.h"

namespace lockstep::data {
namespace {

constexpr std::string_view lambada = "lambada:";
constexpr std::string_view forms_remedy =
    "a line is {\"context\": ..., \"choices\": [...], \"answer\": 0}, {\"context\": ..., \"answer\": \"...\"}, {\"text\": ...} "
    "or HellaSwag's";

[[noreturn]] void refuse(std::string message) { throw UserError(std::move(message), std::string(forms_remedy)); }

const std::string& text_member(const Json& object, std::string_view key) {
  const Json* const value = object.find(key);
  if (value == nullptr || !value->is_string()) refuse(fmt::format("\"{}\" is {}", key, value == nullptr ? "missing" : "no text"));
  return value->string();
}

/// The value of the key that is there; null: none is. Two of them would say two things.
const Json* only_of(const Json& object, std::initializer_list<std::string_view> keys) {
  std::string_view found;
  for (const std::string_view key : keys) {
    if (object.find(key) == nullptr) continue;
    if (!found.empty()) refuse(fmt::format("there are both \"{}\" and \"{}\", of which one alone is read", found, key));
    found = key;
  }
  return found.empty() ? nullptr : object.find(found);
}

const std::string& context_of(const Json& object) {
  const Json* const value = only_of(object, {"context", "question", "prompt", "query"});
  if (value == nullptr || !value->is_string()) refuse("there is no text \"context\", \"question\", \"prompt\" or \"query\"");
  return value->string();
}

/// A number from 0 on, or as a text.
std::size_t index_of(const Json* value, std::size_t count) {
  std::optional<std::int64_t> index;
  if (value != nullptr && value->is_int()) index = value->integer();
  if (value != nullptr && value->is_string() && value->string().size() == 1) {
    const char c = value->string().front();
    if (c >= '0' && c <= '9') index = c - '0';
    if (c >= 'A' && c <= 'Z') index = c - 'A';
  }
  if (!index || *index < 0 || *index >= static_cast<std::int64_t>(count)) {
    refuse(fmt::format("\"answer\" (or \"gold\", \"label\") is {}, but has to be a number from 0 to {}",
                       value == nullptr ? "missing" : value->dump(), count - 1));
  }
  return static_cast<std::size_t>(*index);
}

std::vector<std::string> texts_of(const Json& object, std::string_view key) {
  const Json* const list = object.find(key);
  if (list == nullptr || !list->is_array() || list->array().size() < 2)
    refuse(fmt::format("\"{}\" is no list of two or more", key));
  std::vector<std::string> texts;
  for (const Json& one : list->array()) {
    if (!one.is_string() || one.string().empty()) refuse(fmt::format("\"{}\" has what is no text, or is empty", key));
    texts.push_back(one.string());
  }
  return texts;
}

/// What WikiHow left in HellaSwag's texts (lm-eval, tasks/hellaswag/utils.py: preprocess).
std::string without_marks(std::string_view given) {
  std::string text = jinja::replaced(trimmed(given), " [title]", ". ");
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at)) {
    const std::size_t end = text.find(']', at);
    const bool over_lines = end != std::string::npos && text.substr(at, end - at).find('\n') != std::string::npos;
    if (end == std::string::npos) break;
    over_lines ? void(++at) : void(text.erase(at, end + 1 - at));
  }
  return jinja::replaced(text, "  ", " ");
}

std::string behind_a_blank(const std::string& text) { return " " + text; }

TaskItem hellaswag(const Json& object) {
  TaskItem item;
  item.context = without_marks(text_member(object, "activity_label") + ": " + text_member(object, "ctx_a") + " " +
                               jinja::capitalized(text_member(object, "ctx_b")));
  for (const std::string& ending : texts_of(object, "endings"))
    item.continuations.push_back(behind_a_blank(without_marks(ending)));
  item.right = index_of(object.find("label"), item.continuations.size());
  return item;
}

TaskItem choice(const Json& object) {
  TaskItem item{.context = context_of(object), .continuations = texts_of(object, "choices")};
  std::ranges::transform(item.continuations, item.continuations.begin(), behind_a_blank);
  item.right = index_of(only_of(object, {"answer", "gold", "label"}), item.continuations.size());
  return item;
}

TaskItem answer(const Json& object) {
  const Json* const wanted = only_of(object, {"answer", "target", "completion"});
  if (wanted == nullptr || !wanted->is_string()) refuse("\"answer\" is no text");
  return {.context = context_of(object), .continuations = {wanted->string()}};
}

TaskItem last_word(const Json& object) {
  const std::string& text = text_member(object, "text");
  const std::size_t blank = text.rfind(' ');
  if (blank == std::string::npos || blank == 0) refuse("the text is one word: nothing stands before it");
  return {.context = text.substr(0, blank), .continuations = {text.substr(blank)}};
}

TaskItem document(const Json& object) {
  if (text_member(object, "text").empty()) refuse("the text is empty");
  return {.context = {}, .continuations = {text_member(object, "text")}};
}

struct Form {
  TaskKind kind;
  TaskItem (*make)(const Json& object);
};

Form form_of(const Json& object, bool words) {
  if (words) return {TaskKind::last_word, last_word};
  if (object.find("endings") != nullptr) return {TaskKind::choices, hellaswag};
  if (object.find("choices") != nullptr) return {TaskKind::choices, choice};
  if (object.find("text") != nullptr) return {TaskKind::documents, document};
  return {TaskKind::answers, answer};
}

/// All of a file, unpacked, with a row of a list on each line.
std::string text_in(const TextFile& file) {
  constexpr std::size_t block = std::size_t{1} << 20, most_bytes = std::size_t{1} << 30;
  const std::unique_ptr<io::ByteStream> stream = open_text(file);
  std::string text;
  for (std::size_t read = block; read == block;) {
    const std::size_t before = text.size();
    if (before > most_bytes)
      throw UserError(fmt::format("{} has more than {}", file.name, format_bytes(most_bytes)), "cut the task into several");
    text.resize(before + block);
    read = io::read_up_to(*stream, std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + read);
  }
  return text;
}

}  // namespace

Task read_task(const std::string& named) {
  const bool last_words = named.starts_with(lambada);
  const io::Path path(last_words ? named.substr(lambada.size()) : named);
  const TextFile file = file_source(path, path.string(), {.format = TextFormat::jsonl}).files.front();
  Task task = parse_task(text_in(file), file.name, last_words, file.unit());
  task.name = (file.compression == io::Compression::none ? path : path.stem()).stem().string();
  return task;
}

Task parse_task(std::string_view text, const std::string& name, bool last_words, std::string_view unit) {
  Task task{.name = name, .items = {}};
  std::optional<Form> form;
  std::vector<Problem> problems;
  std::int64_t number = 0;
  for (std::string_view rest = text; !rest.empty() && problems.size() < most_bad_lines;) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++number;
    try {
      const std::optional<Json> object = parse_line(line);
      if (!object) continue;
      if (!form) form = form_of(*object, last_words);
      task.items.push_back(form->make(*object));
    } catch (const UserError& error) {
      const Problem& problem = error.problems().front();
      problems.push_back({fmt::format("{}, {} {}: {}", name, unit, number, problem.message), problem.remedy});
    }
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  if (!form) throw UserError(fmt::format("{} has no line", name), std::string(forms_remedy));
  task.kind = form->kind;
  return task;
}

}  // namespace lockstep::data
