#include "app/cli/help_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/terminal.h"
#include "base/text/visible.h"

namespace lockstep::app {
namespace {

constexpr std::ptrdiff_t lines_of_screen = 24;
constexpr std::size_t first_examples = 2, first_steps = 3;

/// What a short help says of a meaning: all before the first full stop, semicolon or colon that stands in no brackets. A value
/// that is explained ("0: any") keeps its colon.
std::string first_clause(const std::string& meaning) {
  int open = 0;
  for (std::size_t i = 0; i + 1 < meaning.size(); ++i) {
    const char sign = meaning[i];
    if (sign == '(' || sign == ')') open += sign == '(' ? 1 : -1;
    const bool ends = sign == '.' || sign == ';' || (sign == ':' && meaning.find(' ') < i);
    if (ends && open == 0 && meaning[i + 1] == ' ') return meaning.substr(0, i);
  }
  return meaning;
}

std::string left_of(const WordSheet& word) {
  return word.name + (word.value.empty() || word.type == WordType::flag ? "" : " ") + word.value;
}

class Sheet {
 public:
  Sheet(const CommandSheet& sheet, const HelpForm& form) : sheet_(sheet), form_(form) {}

  std::string full() const {
    std::string text = head(sheet_.about);
    if (const auto rows = word_rows(); !rows.empty()) text += '\n' + table(rows);
    if (const auto rows = command_rows(); !rows.empty()) text += titled(sheet_.kinds + ":", table(rows));
    std::vector<HelpRow> rows;
    for (const auto* options : {&sheet_.options, &common_options()}) {
      for (const WordSheet& option : *options) rows.push_back(row_of(option));
    }
    text += titled("options:", table(rows));
    for (const HelpNote& note : sheet_.notes) {
      text += note.rows.empty() ? '\n' + folded(note.text, form_.columns) + '\n' : titled(note.text + ":", table(note.rows));
    }
    text += examples(sheet_.examples.size());
    return sheet_.commands.empty() ? text : text + fmt::format("\n{} --help says more.\n", command("NAME"));
  }

  /// As many options or commands as a screen has room for.
  std::string brief() const {
    const bool group = !sheet_.commands.empty();
    const std::vector<HelpRow> all = group ? command_rows() : daily_rows();
    for (std::size_t shown = all.size();; --shown) {
      std::string text = brief_with(all, shown);
      if (shown == 0 || std::ranges::count(text, '\n') <= lines_of_screen) return text;
    }
  }

 private:
  std::string command(std::string_view last) const {
    std::string text = "lockstep";
    for (const std::string_view word : {std::string_view(sheet_.name), last})
      text += (word.empty() ? "" : " ") + std::string(word);
    return text;
  }

  std::string head(std::string_view about) const {
    const std::string usage = folded(usage_of(sheet_), form_.columns, 4);
    const std::size_t colon = usage.find(':') + 1;
    return form_.paint(Ink::heading, usage.substr(0, colon)) + usage.substr(colon) + "\n\n" + folded(about, form_.columns) + '\n';
  }

  std::string table(const std::vector<HelpRow>& rows) const { return two_columns(rows, form_.columns); }
  std::string titled(std::string_view title, const std::string& text) const {
    return fmt::format("\n{}\n{}", form_.paint(Ink::heading, title), text);
  }

  std::string examples(std::size_t most) const {
    const std::size_t count = std::min(most, sheet_.examples.size());
    if (count == 0) return "";
    std::string lines;
    for (std::size_t i = 0; i < count; ++i) lines += folded_command(sheet_.examples[i], form_.columns, 2) + '\n';
    return titled(count == 1 ? "example:" : "examples:", lines);
  }

  std::vector<HelpRow> word_rows() const {
    std::vector<HelpRow> rows;
    for (const WordSheet& word : sheet_.arguments) {
      std::string left = word.name;
      for (const std::string& name : word.names) left += fmt::format(", {} {}", name, word.name);
      rows.push_back({std::move(left), word.meaning});
    }
    rows.insert(rows.end(), sheet_.words.begin(), sheet_.words.end());
    return rows;
  }

  std::vector<HelpRow> command_rows() const {
    std::vector<HelpRow> rows;
    for (const CommandSheet& one : sheet_.commands) rows.push_back({one.name.substr(one.name.rfind(' ') + 1), one.summary});
    return rows;
  }

  std::vector<HelpRow> daily_rows() const {
    std::vector<HelpRow> rows;
    for (const WordSheet& option : sheet_.options) {
      const bool daily = sheet_.daily.empty() || std::ranges::count(sheet_.daily, option.long_name()) > 0;
      WordSheet shown = option;
      shown.meaning = first_clause(option.meaning);
      if (daily) rows.push_back(row_of(shown));
    }
    return rows;
  }

  std::string brief_with(std::vector<HelpRow> rows, std::size_t shown) const {
    std::string text = head(first_sentence(sheet_.about));
    std::vector<HelpRow> words = word_rows();
    for (HelpRow& row : words) row.right = first_clause(row.right);
    if (!words.empty()) text += '\n' + table(words);
    if (!sheet_.commands.empty() && shown < rows.size()) {
      std::string others;
      for (std::size_t i = shown; i < rows.size(); ++i) others += (others.empty() ? "" : ", ") + rows[i].left;
      rows[shown] = {"also", std::move(others)};
      rows.resize(++shown);
    }
    rows.resize(shown);
    if (!rows.empty()) text += titled(sheet_.commands.empty() ? "options:" : sheet_.kinds + ":", table(rows));
    return text + examples(sheet_.name.empty() ? first_steps : first_examples) +
           fmt::format("\n{} shows all.\n", command("--help"));
  }

  const CommandSheet& sheet_;
  const HelpForm& form_;
};

}  // namespace

HelpForm help_form(std::FILE* file, bool brief) {
  constexpr int narrowest = 40, widest = 120;
  return {std::clamp(text_width(file), narrowest, widest), brief, Paint(file)};
}

std::string help_text(const CommandSheet& sheet, const HelpForm& form) {
  return form.brief ? Sheet(sheet, form).brief() : Sheet(sheet, form).full();
}

HelpRow row_of(const WordSheet& option) {
  std::string meaning = option.meaning;
  if (!option.standard.empty())
    meaning += fmt::format(" (default {})", option.standard == "\n" ? "a line feed" : option.standard);
  if (option.repeats) meaning += " (may be repeated)";
  return {left_of(option), std::move(meaning)};
}

std::string first_sentence(std::string_view text) {
  const std::size_t end = std::min(text.find(". "), text.find('\n'));
  return std::string(text.substr(0, end)) + (end < text.size() && text[end] == '.' ? "." : "");
}

}  // namespace lockstep::app
