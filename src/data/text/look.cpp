#include "data/text/look.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/shell.h"
#include "base/text/lower.h"
#include "base/text/trimmed.h"
#include "base/text/utf8.h"
#include "data/chat/chat_rows.h"
#include "data/formats/known_format.h"
#include "data/text/documents.h"
#include "io/stream.h"

namespace lockstep::data {
namespace {

constexpr const char* as_it_is = "name text or JSONL; --binary takes any file's bytes as they are, with --tokenizer byte";

/// The command that unpacks a file of that name; empty: none is needed.
std::string_view unpacking(const io::Path& name) {
  const std::string end = lower(name.extension().string());
  return end == ".gz" ? "gzip -dc " : end == ".zst" || end == ".zstd" ? "zstd -dc " : "";
}

/// The last part of a file's name in small letters, as it is without that of a compression: ".jsonl".
std::string ending(io::Path name) {
  if (!unpacking(name).empty()) name.replace_extension();
  return lower(name.extension().string());
}

bool named_jsonl(const io::Path& name) {
  const std::string end = ending(name);
  return end == ".jsonl" || end == ".ndjson";
}

FileStart start_inside(const io::Path& path, const std::string& name, io::Compression compression) {
  const std::unique_ptr<io::ByteStream> inside = io::unpacked(io::open_stream(path), compression, name);
  FileStart start;
  start.bytes.resize(FileStart::most + 1);
  start.bytes.resize(io::read_up_to(*inside, std::as_writable_bytes(std::span(start.bytes))));
  start.size = start.bytes.size();  // as far as it is known
  start.bytes.resize(std::min(start.bytes.size(), FileStart::most));
  if (start.whole()) start.end = start.bytes.substr(start.bytes.size() - std::min<std::size_t>(start.bytes.size(), 8));
  return start;
}

// For a file that no row of the known formats recognises.
Look look_at_text(const FileStart& start, const std::string& name, bool utf8) {
  const PlainText text = plain_text(start.bytes);
  if (text.zero()) {
    return {.reason = "binary (a zero byte)",
            .problem = {fmt::format("{} is no text: its byte {} is zero", name, text.zero_at),
                        std::string(as_it_is) + "; a folder of token ids is a data.dir"}};
  }
  if (text.in_bulk()) {
    return {.reason = "binary (neither UTF-8 nor another text)",
            .problem = {fmt::format("{} is no text: of its first {} bytes {} are no UTF-8, or control characters", name, text.of,
                                    text.strange),
                        std::string("text in another encoding is converted by iconv; ") + as_it_is}};
  }
  const std::size_t bad = utf8 ? invalid_utf8_at(start.bytes) : std::string::npos;
  const bool cut = bad != std::string::npos && start.bytes.size() - bad <= longest_tail && !start.whole();
  return {.reason = bad == std::string::npos || cut ? "" : "not UTF-8"};
}

bool is_row(const Json& object) {
  const auto has = [&](const char* key) { return member_of(object, key) != nullptr; };
  return form_of(object) != RowForm::plain || has("text") || (has("prompt") && has("completion"));
}

/// Whether the first two lines that are not blank are objects, or the only one is a row of a form that is known. A first line
/// that reaches beyond the start counts as a row where it begins with {".
bool begins_with_rows(const FileStart& start) {
  std::string_view rest = without_mark(start.bytes);
  bool row = false;
  for (int found = 0; found < 2;) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos && !start.whole()) return row || (found == 0 && rest.starts_with("{\""));
    if (rest.empty()) return row;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    try {
      const std::optional<Json> object = parse_line(line);
      if (!object) continue;
      row = is_row(*object);
      ++found;
    } catch (const UserError&) {
      return false;
    }
  }
  return true;
}

/// Whether a list of objects begins, and not a list in each line.
bool begins_a_list(const FileStart& start) {
  constexpr const char* blanks = " \t\r\n";
  const std::string_view text = without_mark(start.bytes);
  const std::size_t list = text.find_first_not_of(blanks);
  if (list == text.npos || text[list] != '[') return false;
  const std::size_t end = text.find('\n', list);
  if (end != text.npos && trimmed(text.substr(list, end - list)).ends_with(']') &&
      text.find_first_not_of(blanks, end) != text.npos)
    return false;
  const std::size_t object = text.find_first_not_of(blanks, list + 1);
  if (object == text.npos || text[object] != '{') return false;
  const std::size_t name = text.find_first_not_of(blanks, object + 1);
  return name != text.npos && text[name] == '"';
}

Rows rows_at(const FileStart& start) {
  if (begins_a_list(start)) return Rows::list;
  return begins_with_rows(start) ? Rows::lines : Rows::none;
}

/// Text that holds rows in another way, or that has another name: to learn its brackets is seldom meant.
Look look_at_rows(const FileStart& start, const std::string& name) {
  const std::string end = ending(name), word = shell_words({name});
  const std::string as_text = fmt::format("; lockstep prepare {} --format text takes it as it is", word);
  const std::string as_rows = fmt::format("lockstep prepare {} --format jsonl reads a document a row", word);
  const std::string_view unpacked = unpacking(name);
  const auto write = [&](const std::string& command) {
    return unpacked.empty() ? fmt::format("write it as JSONL: {} < {} > ROWS.jsonl{}", command, word, as_text)
                            : fmt::format("write it as JSONL: {}{} | {} > ROWS.jsonl{}", unpacked, word, command, as_text);
  };
  if (end == ".csv" || end == ".tsv") {
    const std::string reader = fmt::format("csv.DictReader(sys.stdin{})", end == ".tsv" ? ", delimiter='\\t'" : "");
    return {
        .reason = fmt::format("a table ({})", end),
        .problem = {name + " is a table, and no text",
                    write(fmt::format(R"(python3 -c "import csv, json, sys; [print(json.dumps(row)) for row in {}]")", reader))}};
  }
  const Rows rows = rows_at(start);
  if (rows != Rows::none && !end.empty() && end != ".json") {
    const bool list = rows == Rows::list;
    return {
        .reason = list ? "a list in JSON by another name" : "JSONL by another name",
        .problem = {fmt::format("{}: {}, and its name is not that of {}", name,
                                list ? "it is a list of rows in JSON" : "its lines are objects in JSON", list ? "JSON" : "JSONL"),
                    as_rows + as_text}};
  }
  if (rows != Rows::none || end != ".json") return {.rows = rows};
  // A folder of programs has such files.
  return {.problem = {name + ": it is neither JSONL nor a list of rows in JSON",
                      fmt::format("{}; of a list in it: {}", row_forms, write("jq -c '.MEMBER[]'"))}};
}

}  // namespace

Look look_at(const io::Path& path, const std::string& name, const TextRules& rules) {
  FileStart start = start_of(io::FileBytes(path));
  if (start.size == 0) return {.reason = "empty"};
  if (rules.binary) return {};
  const KnownFormat* format = known_format(start);
  io::Compression compression = io::Compression::none;
  if (format != nullptr && format->compression != io::Compression::none) {
    compression = format->compression;
    start = start_inside(path, name, compression);
    if (const KnownFormat* inside = known_format(start); inside != nullptr) {
      Problem problem = refused(*format, name);
      problem.message += fmt::format(", and what is in it is {}", inside->what);
      return {.compression = compression,
              .reason = fmt::format("{} in {}", inside->what, io::name_of(compression)),
              .problem = std::move(problem)};
    }
  } else if (format != nullptr) {
    return {.reason = std::string(format->what), .problem = refused(*format, name)};
  }
  Look look;
  if (rules.format == TextFormat::jsonl || (rules.format == TextFormat::automatic && named_jsonl(name))) {
    look.rows = rows_at(start);
    if (look.rows == Rows::none && named_jsonl(name)) look.rows = Rows::lines;  // bad lines are told
  } else {
    look = look_at_text(start, name, rules.utf8);
    if (rules.format == TextFormat::automatic && look.reason.empty()) look = look_at_rows(start, name);
  }
  look.compression = compression;
  return look;
}

}  // namespace lockstep::data
