#pragma once

// What a command answers, once for people and for programs: lines of text, facts, and tables. A table's rows are lines of the
// text, objects of the JSON, and lines of the CSV.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace lockstep {

struct Column {
  std::string key;                ///< member of a row in JSON and CSV; empty: the column is in the text alone
  std::string heading = {};       ///< in the text
  std::string format = "{:.0f}";  ///< fmt's format of a number in the text; empty: the column is not in the text
  double scale = 1;               ///< factor of a number in the text
};

struct Cell {
  template <class Value>
  Cell(Value of) : value(std::move(of)) {}
  Cell(Json of, std::string shown) : value(std::move(of)), text(std::move(shown)) {}

  Json value;                            ///< null: the cell has no value, and "-" in the text
  std::optional<std::string> text = {};  ///< in place of the value
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Columns of the text alone, numbers of one format.
  static Table of_text(const std::vector<std::string>& headings, const std::string& format = "{:.0f}", double scale = 1);
  /// Columns of JSON and CSV alone.
  static Table of_keys(const std::vector<std::string>& keys);
  /// A cell for each column; columns without one have none in this row.
  void row(std::vector<Cell> cells);

  bool empty() const { return rows_.empty(); }
  /// As people read it: the headings of the text's columns, then the cells of each row.
  std::vector<std::vector<std::string>> lines() const;
  /// The table with the text's columns as rows, and their headings in the first column.
  Table turned() const;
  /// Aligned: columns of texts to the left, others to the right. No headings where none has one. Empty without columns of the
  /// text.
  std::string text() const;
  /// A line of keys, then a line for each row; empty without keys.
  std::string csv() const;
  /// An object for each row.
  Json::Array rows() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

class Answer {
 public:
  /// Appends to the text.
  void say(std::string_view text) { text_ += text; }
  /// A member of the JSON.
  void fact(std::string key, Json value) { facts_.emplace_back(std::move(key), std::move(value)); }
  /// Several members of the JSON.
  void facts(Json::Object members);
  /// Appends the table to the text; its rows become the member `key` of the JSON. Empty `key`: only the text has it.
  void table(const std::string& key, const Table& table);
  /// The table's rows become a member of the JSON, and lines of the CSV. The text does not have them.
  void rows(const std::string& key, const Table& table);
  /// Takes the place of facts: each row is a line of JSON.
  void lines(const Table& table);

  const std::string& text() const { return text_; }
  /// One line, or one for each row of lines(). Ends with a line break.
  std::string json() const;
  /// The tables with keys, one after the other; without any the facts as one row.
  std::string csv() const;
  /// The member of that key; there is one.
  const Json& at(std::string_view key) const;

 private:
  std::string text_, csv_, lines_;
  Json::Object facts_;
};

}  // namespace lockstep
