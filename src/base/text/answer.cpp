#include "base/text/answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace lockstep {
namespace {

double number_of(const Json& value) { return value.is_int() ? static_cast<double>(value.integer()) : value.number(); }

std::string shown(const Column& column, const Cell& cell) {
  if (cell.text) return *cell.text;
  if (cell.value.is_null()) return "-";
  if (cell.value.is_string()) return cell.value.string();
  if (cell.value.is_bool()) return cell.value.boolean() ? "yes" : "no";
  return fmt::format(fmt::runtime(column.format), column.scale * number_of(cell.value));
}

/// Columns of a terminal; a character has one byte that does not continue another's.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

/// Words of a list stand in one field, with blanks between.
std::string words_of(const Json::Array& list) {
  std::string text;
  for (const Json& word : list) text += (text.empty() ? "" : " ") + (word.is_string() ? word.string() : word.dump());
  return text;
}

std::string csv_field(const Json& value) {
  std::string text = value.is_null()     ? ""
                     : value.is_string() ? value.string()
                     : value.is_array()  ? words_of(value.array())
                                         : value.dump();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const std::vector<Json>& values) {
  std::string line;
  for (const Json& value : values) line += (line.empty() && &value == values.data() ? "" : ",") + csv_field(value);
  return line + "\n";
}

}  // namespace

Table Table::of_text(const std::vector<std::string>& headings, const std::string& format, double scale) {
  std::vector<Column> columns;
  for (const std::string& heading : headings) columns.push_back({"", heading, format, scale});
  return Table(std::move(columns));
}

Table Table::of_keys(const std::vector<std::string>& keys) {
  std::vector<Column> columns;
  for (const std::string& key : keys) columns.push_back({key, "", ""});
  return Table(std::move(columns));
}

void Table::row(std::vector<Cell> cells) {
  ensure(cells.size() <= columns_.size(), "a row has a cell for each column at most");
  cells.resize(columns_.size(), Cell(Json(), ""));
  rows_.push_back(std::move(cells));
}

std::vector<std::vector<std::string>> Table::lines() const {
  std::vector<std::vector<std::string>> lines(1 + rows_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].format.empty()) continue;
    lines[0].push_back(columns_[c].heading);
    for (std::size_t r = 0; r < rows_.size(); ++r) lines[r + 1].push_back(shown(columns_[c], rows_[r][c]));
  }
  return lines;
}

Table Table::turned() const {
  const std::vector<std::vector<std::string>> columns = lines();
  std::vector<std::string> headings;
  for (const std::vector<std::string>& column : columns) headings.push_back(column[0]);
  Table table = of_text(headings);
  for (std::size_t r = 1; r < columns[0].size(); ++r) {
    std::vector<Cell> cells;
    for (const std::vector<std::string>& column : columns) cells.emplace_back(column[r]);
    table.row(std::move(cells));
  }
  return table;
}

std::string Table::text() const {
  std::vector<std::string> lines(1 + rows_.size());
  bool headed = false;
  const char* gap = "";
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    if (column.format.empty()) continue;
    headed |= !column.heading.empty();
    std::vector<std::string> texts{column.heading};
    bool words = std::ranges::any_of(rows_, [c](const std::vector<Cell>& row) { return row[c].value.is_string(); });
    for (const std::vector<Cell>& row : rows_) {
      texts.push_back(shown(column, row[c]));
      words &= row[c].value.is_string() || row[c].value.is_null();
    }
    const std::size_t width = width_of(std::ranges::max(texts, {}, width_of));
    for (std::size_t r = 0; r < texts.size(); ++r) {
      const std::string blanks(width - width_of(texts[r]), ' ');
      lines[r] += gap + (words ? texts[r] + blanks : blanks + texts[r]);
    }
    gap = "  ";
  }
  std::string text;
  if (*gap == '\0') return text;
  for (std::size_t r = headed ? 0 : 1; r < lines.size(); ++r) {
    lines[r].erase(lines[r].find_last_not_of(' ') + 1);
    text += lines[r] + "\n";
  }
  return text;
}

std::string Table::csv() const {
  std::vector<Json> keys;
  std::vector<std::vector<Json>> values(rows_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::string& key = columns_[c].key;
    if (key.empty()) continue;
    const auto add = [&](const std::string& name, const auto& value_of) {
      keys.emplace_back(name);
      for (std::size_t r = 0; r < rows_.size(); ++r) values[r].push_back(value_of(rows_[r][c].value));
    };
    const auto object = std::ranges::find_if(rows_, [c](const std::vector<Cell>& row) { return row[c].value.is_object(); });
    if (object == rows_.end()) {
      add(key, [](const Json& value) { return value; });
      continue;
    }
    for (const auto& [name, unused] : (*object)[c].value.object()) {
      const auto member = [&name = name](const Json& value) {
        const Json* found = value.is_object() ? value.find(name) : nullptr;
        return found != nullptr ? *found : Json();
      };
      add(fmt::format("{}.{}", key, name), member);
    }
  }
  if (keys.empty()) return "";
  std::string text = csv_line(keys);
  for (const std::vector<Json>& line : values) text += csv_line(line);
  return text;
}

Json::Array Table::rows() const {
  Json::Array rows;
  for (const std::vector<Cell>& row : rows_) {
    Json::Object members;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (!columns_[c].key.empty()) members.emplace_back(columns_[c].key, row[c].value);
    rows.emplace_back(std::move(members));
  }
  return rows;
}

void Answer::facts(Json::Object members) {
  for (auto& [key, value] : members) fact(key, std::move(value));
}

void Answer::table(const std::string& key, const Table& table) {
  text_ += table.text();
  if (!key.empty()) rows(key, table);
}

void Answer::rows(const std::string& key, const Table& table) {
  fact(key, table.rows());
  csv_ += (csv_.empty() ? "" : "\n") + table.csv();
}

void Answer::lines(const Table& table) {
  text_ += table.text();
  for (const Json& row : table.rows()) lines_ += row.dump() + "\n";
  csv_ += table.csv();
}

const Json& Answer::at(std::string_view key) const {
  const auto found = std::ranges::find(facts_, key, &Json::Object::value_type::first);
  ensure(found != facts_.end(), "the answer has the member");
  return found->second;
}

std::string Answer::json() const { return facts_.empty() ? lines_ : Json(facts_).dump() + "\n"; }

std::string Answer::csv() const {
  if (!csv_.empty()) return csv_;
  std::vector<Json> keys, values;
  for (const auto& [key, value] : facts_) {
    keys.emplace_back(key);
    values.push_back(value);
  }
  return csv_line(keys) + csv_line(values);
}

}  // namespace lockstep
