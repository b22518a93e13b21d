// `lockstep report RUN...`: runs side by side.

#include <fmt/format.h>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/folder/output_file.h"
#include "app/report/report_page.h"
#include "base/error.h"
#include "base/text/visible.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

int report(const Arguments& arguments) {
  std::vector<std::string> folders;
  std::string out;
  CommandLine line("report",
                   "Runs side by side: losses, throughput, MFU, where a step's time goes, memory, communication and the settings "
                   "that differ. On the terminal, or as a page that needs no other file.");
  line.positionals("RUN", folders, "folders of runs, as lockstep train writes them");
  line.option("--out", out, "F.html", "a page in place of the terminal's text");
  line.note(
      "examples:\n"
      "  lockstep report runs/first\n"
      "  lockstep report runs/dp2 runs/pp2 --out report.html\n"
      "docs/report.md says what is in it.");
  if (!line.parse(arguments)) return 0;
  std::vector<Problem> problems = check_output("--out", out, is_own_page);
  std::vector<RunData> runs;
  try {
    runs = read_runs(folders);
  } catch (const UserError& error) {
    problems.insert(problems.begin(), error.problems().begin(), error.problems().end());
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  if (out.empty()) {
    fmt::print("{}", visible(report_text(runs), LineBreaks::kept));
    return 0;
  }
  io::replace_file(out, report_page(runs));
  fmt::print("Wrote {}\n", out);
  return 0;
}

}  // namespace

Command report_command() { return {"report", "compare runs: curves, time, memory, settings", report}; }

}  // namespace lockstep::app
