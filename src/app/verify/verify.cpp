// `lockstep verify`: shows that the layout does not change what a run learns.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/folder/output_file.h"
#include "app/settings/run_config.h"
#include "app/verify/verify_output.h"
#include "base/text/columns.h"
#include "comm/mpi/mpi_job.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string model = "both", layouts = "quick", dtype = "fp32", html;
  std::int64_t steps = 3;
  bool json = false;
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line(
      "verify",
      "Show that the layout does not change what a run learns: train small models in many layouts, each on ranks that "
      "are threads of this process, and compare every loss, gradient, weight and slot of the optimizer with the "
      "training on one rank. Exit code 0: every layout keeps its promise; 1: one does not, or its run ended with an error; 2: "
      "the errors are ones that you can mend.");
  std::vector<std::string> models = lab::verify_model_names();
  models.emplace_back("both");
  line.choice("--model", options.model, models, "what is trained");
  line.option("--layouts", options.layouts, "LIST", "quick, all, or layouts with semicolons between");
  line.option("--steps", options.steps, "N", "optimizer steps of each layout");
  line.choice("--dtype", options.dtype, dtype_spellings(), "of weights and activations");
  line.flag("--json", options.json, "one line of JSON at the end, in place of the table");
  line.option("--html", options.html, "FILE", "the table as a page too");
  std::vector<HelpRow> rows;
  for (const lab::LayoutWord& word : lab::layout_words()) rows.push_back({spelt(word), std::string(word.about)});
  line.note("words of a layout, with commas between:\n" + two_columns(rows));
  line.note(
      "examples:\n"
      "  lockstep verify\n"
      "  lockstep verify --layouts \"dp=2;dp=2,zero=3,recompute=full\" --model gpt2\n"
      "  lockstep verify --layouts all --html proof.html\n"
      "docs/verify.md says what is promised of which layout.");
  return line.parse(arguments);
}

std::vector<std::string> texts_of(const std::string& list) {
  if (list == "quick" || list == "all") return lab::layout_list(list);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(';', at), list.size());
    if (end > at) texts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return texts;
}

lab::VerifyOptions verify_options(const Options& options) {
  lab::VerifyOptions verify;
  for (const std::string& name : lab::verify_model_names()) {
    if (options.model == name || options.model == "both")
      verify.models.push_back(lab::verify_model(name, dtype_from_spelling(options.dtype)));
  }
  std::vector<Problem> problems;
  for (const std::string& text : texts_of(options.layouts)) {
    if (const auto layout = lab::layout_from(text, problems)) verify.layouts.push_back(*layout);
  }
  verify.steps = static_cast<int>(options.steps);
  if (!problems.empty() && verify.layouts.empty()) throw UserError(std::move(problems));
  for (Problem& problem : check(verify)) problems.push_back(std::move(problem));
  for (Problem& problem : check_output("--html", options.html, is_own_page)) problems.push_back(std::move(problem));
  if (!problems.empty()) throw UserError(std::move(problems));
  return verify;
}

int verify(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  if (const auto job = comm::find_mpi_job()) {
    throw UserError(fmt::format("verify under {}: its ranks are threads of one process", job->launcher),
                    fmt::format("start it without {}", job->launcher));
  }
  const lab::VerifyOptions wanted = verify_options(options);
  const std::string* model = nullptr;
  const auto tell = [&](const lab::LayoutReport& report) {
    if (options.json) return;
    if (model == nullptr || *model != report.model) {
      const auto& of = *std::ranges::find(wanted.models, report.model, &lab::VerifyModel::name);
      fmt::print("{}{}", model == nullptr ? "" : "\n", table_head(of, wanted.steps));
      model = &of.name;
    }
    fmt::print("{}", table_line(report));
    std::fflush(stdout);
  };
  const std::vector<lab::LayoutReport> reports = lab::verify(wanted, tell);
  if (options.json) {
    Json::Array all;
    for (const lab::LayoutReport& report : reports) all.push_back(to_json(report));
    fmt::print("{}\n",
               Json(Json::Object{{"dtype", options.dtype}, {"holds", all_hold(reports)}, {"layouts", std::move(all)}}).dump());
  } else {
    fmt::print("\n{}", summary(reports));
  }
  if (!options.html.empty()) io::replace_file(options.html, to_html(wanted.models, reports));
  return exit_code(reports);
}

}  // namespace

Command verify_command() { return {"verify", "show that the layout does not change what is learnt", verify}; }

}  // namespace lockstep::app
