#include "app/report/run_origin.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "app/folder/folder_owner.h"
#include "base/json.h"
#include "base/shell.h"

namespace lockstep::app {
namespace {

/// The member as text; empty where there is none.
std::string text_of(const Json& object, std::string_view key) {
  const Json* value = object.is_object() ? object.find(key) : nullptr;
  if (value == nullptr || value->is_null()) return "";
  return value->is_string() ? value->string() : value->dump();
}

const Json& part(const Json& object, std::string_view key) {
  static const Json nothing;
  const Json* value = object.is_object() ? object.find(key) : nullptr;
  return value != nullptr ? *value : nothing;
}

std::string machine_of(const Json& host) {
  std::string text;
  const auto add = [&](const std::string& fact, std::string_view unit = "") {
    if (!fact.empty()) text += fmt::format("{}{}{}", text.empty() ? "" : ", ", fact, unit);
  };
  add(text_of(host, "cpu"));
  add(text_of(host, "cores"), " cores");
  add(text_of(host, "memory"));
  add(text_of(host, "system"));
  const std::string name = text_of(host, "name");
  return name.empty() ? text : fmt::format("{} ({})", text, name);
}

/// "2026-11-26T13:41:00Z" without its seconds.
std::string minute_of(const std::string& time) {
  constexpr std::size_t to_minutes = 16;
  if (time.size() < to_minutes || time[10] != 'T') return time;
  return time.substr(0, 10) + " " + time.substr(11, to_minutes - 11) + " UTC";
}

std::string program_of(const Json& program) {
  const std::string commit = text_of(program, "commit").substr(0, 12);
  return text_of(program, "version") + (commit.empty() ? "" : ", commit " + commit) +
         (text_of(program, "dirty") == "true" ? " with other changes" : "");
}

}  // namespace

std::optional<RunOrigin> read_origin(const io::Path& folder) {
  constexpr std::size_t most = 1 << 20;
  const io::Path file = folder / "environment.json";
  const std::string text = first_bytes(file, most);
  if (text.empty()) return std::nullopt;
  const Json json = Json::parse(text, file.string());
  std::vector<std::string> words;
  if (const Json& line = part(json, "command_line"); line.is_array()) {
    for (const Json& word : line.array()) words.push_back(word.is_string() ? word.string() : word.dump());
  }
  return RunOrigin{.machine = machine_of(part(json, "host")),
                   .time = minute_of(text_of(json, "time")),
                   .program = program_of(part(json, "program")),
                   .command = shell_words(words)};
}

}  // namespace lockstep::app
