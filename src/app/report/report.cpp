// `lockstep report RUN...`: runs side by side.

#include <fmt/format.h>

#include <cstdio>

#include "app/cli/commands.h"
#include "app/folder/answer_line.h"
#include "app/report/browser.h"
#include "app/report/report_page.h"
#include "base/terminal.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

int report(const Arguments& arguments) {
  std::vector<std::string> folders;
  std::string page;
  bool opens = false;
  AnswerLine line("report",
                  "Runs side by side: losses, throughput, MFU, where a step's time goes, memory, communication and the settings "
                  "that differ. On the terminal, or as a page that needs no other file.");
  line.positionals("RUN", folders, "folders of runs, as lockstep train writes them, or of many: runs stands for all runs in it");
  line.option("--html", page, "FILE", "a page in place of the terminal's text");
  line.flag("--open", opens, "a page, shown by the program that BROWSER names, or else by xdg-open");
  line.ask_csv();
  line.note(
      "examples:\n"
      "  lockstep report runs/first\n"
      "  lockstep report runs --open\n"
      "  lockstep report runs/dp2 runs/pp2 --html report.html\n"
      "docs/report.md says what is in it.");
  if (!line.read(arguments)) return 0;
  line.demand(!line.out().ends_with(".html"), fmt::format("--out {}: it takes the terminal's text", line.out()),
              fmt::format("--html {} writes the page", line.out()));
  line.collect([&] { demand_output("--html", page, is_own_page); });
  std::vector<RunData> runs;
  line.collect([&] { runs = read_runs(folders); });
  line.check();
  const bool has_page = opens || !page.empty();
  if (!has_page || line.told_to() != stdout) line.print(report_answer(runs));
  if (!has_page) return 0;
  const io::Path file = page.empty() ? temporary_page() : io::Path(page);
  io::replace_file(file, report_page(runs));
  say(line.told_to(), fmt::format("Wrote {}\n", file.string()));
  if (opens) open_page(file);
  return 0;
}

}  // namespace

Command report_command() { return {"report", "compare runs: curves, time, memory, settings", report}; }

}  // namespace lockstep::app
