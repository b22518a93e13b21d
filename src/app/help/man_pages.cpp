// Manual pages, in the man macros of roff.

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/build_info.h"
#include "app/cli/help_text.h"
#include "app/help/help.h"
#include "app/settings/config_help.h"
#include "app/settings/keys.h"
#include "app/settings/presets.h"

namespace lockstep::app {
namespace {

constexpr std::string_view settings_page = "lockstep-config";

/// Text that roff prints as it is; a line that began with a dot or a quote would be a request. A line may end behind a '|'.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((out.empty() || out.back() == '\n') && (c == '.' || c == '\'')) out += "\\&";
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : c == '|' ? "|\\:" : std::string(1, c);
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + plain(text) + "\\fR"; }

class Page {
 public:
  Page(std::string name, int section, std::string_view summary) : name_(std::move(name)), section_(section) {
    std::string title = name_;
    std::ranges::transform(title, title.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    text_ = fmt::format(".TH \"{}\" {} \"\" \"lockstep {}\" \"{}\"\n", plain(title), section, kVersion,
                        section == 1 ? "User commands" : "File formats");
    line(".ad l");
    line(".nh");  // a hyphen at a line's end would belong to what is typed
    heading("NAME");
    line(plain(name_) + " \\- " + plain(summary));
  }

  void heading(std::string_view title) { line(fmt::format(".SH \"{}\"", plain(title))); }
  void line(std::string_view text) { text_ += std::string(text) + '\n'; }
  void paragraphs(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view one = text.substr(at, text.find('\n', at) - at);
      at += one.size() + 1;
      line(".PP");
      line(plain(one));
    }
  }
  void rows(const std::vector<HelpRow>& all) {
    for (const HelpRow& row : all) {
      line(".TP");
      line(bold(row.left));
      line(row.right.empty() ? "\\&" : plain(row.right));
    }
  }
  void commands(const std::vector<std::string>& all) {
    line(".nf");
    for (const std::string& one : all) line(plain(one));
    line(".fi");
  }
  void section(std::string_view title, const std::vector<HelpRow>& all) {
    if (all.empty()) return;
    heading(title);
    rows(all);
  }
  std::pair<std::string, std::string> done() && { return {fmt::format("{}.{}", name_, section_), std::move(text_)}; }

 private:
  std::string name_, text_;
  int section_;
};

std::string page_name(const CommandSheet& sheet) {
  std::string name = sheet.name.empty() ? "lockstep" : "lockstep-" + sheet.name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string see_also(const CommandSheet& sheet, bool is_program) {
  std::string text = is_program ? "" : bold("lockstep") + "(1), ";
  for (const CommandSheet& one : sheet.commands) text += bold(page_name(one)) + "(1), ";
  return text + bold(settings_page) + "(5)";
}

std::vector<HelpRow> argument_rows(const CommandSheet& sheet) {
  std::vector<HelpRow> rows;
  for (const WordSheet& word : sheet.arguments) rows.push_back({word.name, word.meaning});
  rows.insert(rows.end(), sheet.words.begin(), sheet.words.end());
  return rows;
}

std::vector<HelpRow> option_rows(const CommandSheet& sheet) {
  std::vector<HelpRow> rows;
  for (const auto* options : {&sheet.options, &common_options()}) {
    for (const WordSheet& option : *options) rows.push_back(row_of(option));
  }
  return rows;
}

std::pair<std::string, std::string> page_of(const CommandSheet& sheet) {
  const bool is_program = sheet.name.empty();
  Page page(page_name(sheet), 1, is_program ? "trains GPT-style language models" : sheet.summary);
  page.heading("SYNOPSIS");
  page.line(plain(usage_of(sheet).substr(std::string_view("usage: ").size())));
  page.heading("DESCRIPTION");
  page.paragraphs(sheet.about);
  std::vector<HelpRow> commands, statuses;
  for (const CommandSheet& one : sheet.commands) commands.push_back({one.name, one.summary});
  page.section("COMMANDS", commands);
  page.section("ARGUMENTS", argument_rows(sheet));
  page.section("OPTIONS", option_rows(sheet));
  if (!sheet.notes.empty()) page.heading("NOTES");
  for (const HelpNote& note : sheet.notes) {
    page.paragraphs(note.text + (note.rows.empty() ? "" : ":"));
    page.rows(note.rows);
  }
  if (!sheet.examples.empty()) {
    page.heading("EXAMPLES");
    page.commands(sheet.examples);
  }
  if (is_program) {
    for (const ExitStatus& status : exit_statuses())
      statuses.push_back({std::to_string(status.code), std::string(status.meaning)});
    page.section("EXIT STATUS", statuses);
    page.section("ENVIRONMENT", {{"NO_COLOR, CLICOLOR_FORCE", "nothing is coloured; colours, also for a pipe or a file"},
                                 {"COLUMNS", "width of help, in place of the terminal's"}});
    page.section("FILES",
                 {{"share/lockstep/configs", "below where the program is installed: recipes for lockstep train --config"},
                  {"share/doc/lockstep", "there too: a page for each concept"}});
  }
  page.heading("SEE ALSO");
  page.line(see_also(sheet, is_program));
  return std::move(page).done();
}

std::pair<std::string, std::string> page_of_settings() {
  Page page(std::string(settings_page), 5, "settings of a run, on the command line and in recipes");
  page.heading("DESCRIPTION");
  page.paragraphs(settings::settings_grammar);
  for (const settings::Group& group : settings::groups()) {
    std::vector<HelpRow> rows;
    if (const std::string options = settings::options_of(group.name); !options.empty())
      rows.push_back({fmt::format("{}=OPTION", group.name), "a bundle of settings: " + options});
    for (const settings::Key& key : settings::keys()) {
      if (key.group() != group.name) continue;
      const std::string unit = key.unit.empty() ? "" : fmt::format(" [{}]", key.unit);
      rows.push_back({fmt::format("{}={}", key.name, settings::shown(key.get(RunConfig()))),
                      fmt::format("{}{}: {}", key.meaning, unit, settings::rule_text(key))});
    }
    page.section(group.name, rows);
  }
  page.heading("SEE ALSO");
  page.line(bold("lockstep") + "(1), " + bold("lockstep-train") + "(1)");
  return std::move(page).done();
}

void add_pages(const CommandSheet& sheet, std::vector<std::pair<std::string, std::string>>& pages) {
  pages.push_back(page_of(sheet));
  for (const CommandSheet& one : sheet.commands) add_pages(one, pages);
}

}  // namespace

const std::vector<ExitStatus>& exit_statuses() {
  static const std::vector<ExitStatus> all = {
      {0, "done"},
      {kSystemError, "the system refused something: a file, memory, the network"},
      {kUserError, "the command line, a file or the layout asks for what cannot be; the message says what can"},
      {kDiverged, "the run diverged; its last finite checkpoint is kept"},
      {kBrokenRule, "a defect of the program"},
      {kInterrupted, "SIGINT ended a training before its end; it is saved"},
      {kTerminated, "SIGTERM did"}};
  return all;
}

std::vector<std::pair<std::string, std::string>> man_pages(const CommandSheet& program) {
  std::vector<std::pair<std::string, std::string>> pages;
  add_pages(program, pages);
  pages.push_back(page_of_settings());
  return pages;
}

}  // namespace lockstep::app
