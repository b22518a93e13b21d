// `lockstep verify`: shows that the layout does not change what a run learns.

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/commands.h"
#include "app/folder/answer_line.h"
#include "app/gpu/device_option.h"
#include "app/settings/run_config.h"
#include "app/verify/against.h"
#include "app/verify/serving.h"
#include "app/verify/verify_output.h"
#include "base/number_text.h"
#include "base/text/columns.h"
#include "comm/mpi/mpi_job.h"
#include "device/choose_device.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string model = "all", layouts = "quick", dtype = "fp32", device = "cpu", optimizer = "AdamW", html, against;
  std::int64_t steps = 3;
  bool serve = false;
};

void declare(AnswerLine& line, Options& options) {
  std::vector<std::string> models = lab::verify_model_names();
  models.emplace_back("all");
  line.choice("--model", options.model, models, "what is trained");
  line.option("--layouts", options.layouts, "quick|all|LIST", "which; a LIST is layouts with semicolons between");
  line.option("--steps", options.steps, "N", "optimizer steps of each layout");
  line.choice("--dtype", options.dtype, dtype_spellings(), "of weights and activations");
  line.choice("--device", options.device, {"cpu", "cuda"}, "of the ranks; what a layout must equal is made on the CPU in fp32");
  line.choice("--optimizer", options.optimizer, train::optimizer_names(), "how weights are updated");
  line.option("--against", options.against, "DUMP", "judge what another system did in one step, in place of layouts");
  line.flag("--serve", options.serve,
            "compare texts that are written side by side with those written alone, in place of layouts");
  line.ask_csv();
  line.option("--html", options.html, "FILE", "the table as a page too");
  std::vector<HelpRow> rows;
  for (const lab::LayoutWord& word : lab::layout_words()) rows.push_back({spelt(word), std::string(word.about)});
  line.table("words of a layout, with commas between", std::move(rows));
  line.note(
      "examples:\n"
      "  lockstep verify\n"
      "  lockstep verify --layouts \"dp=2;dp=2,zero=3,recompute=full\" --model gpt2\n"
      "  lockstep verify --optimizer muon\n"
      "  lockstep verify --layouts all --html proof.html\n"
      "  lockstep verify --against dump\n"
      "  lockstep verify --serve --model llama\n"
      "docs/verify.md says what is promised of which layout, docs/against.md what a dump has.");
}

bool is_list(const std::string& layouts) { return layouts == "quick" || layouts == "all"; }

std::vector<std::string> texts_of(const std::string& list) {
  if (is_list(list)) return lab::layout_list(list);
  std::vector<std::string> texts = parts_of_list(list, ';');
  std::erase(texts, "");
  return texts;
}

lab::VerifyOptions verify_options(const Options& options, AnswerLine& line) {
  lab::VerifyOptions verify{.models = {},
                            .layouts = {},
                            .steps = static_cast<int>(options.steps),
                            .device = options.device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu,
                            .as_possible = is_list(options.layouts)};
  for (const std::string& name : lab::verify_model_names()) {
    if (options.model == name || options.model == "all")
      verify.models.push_back(lab::verify_model(name, dtype_from_spelling(options.dtype), options.optimizer));
  }
  for (const std::string& text : texts_of(options.layouts)) {
    if (const auto layout = lab::layout_from(text, line.problems())) verify.layouts.push_back(*layout);
  }
  if (verify.layouts.empty()) line.check();
  for (Problem& problem : check(verify)) line.problems().push_back(std::move(problem));
  line.collect([&] { demand_output("--html", options.html, is_own_page); });
  line.check();
  return verify;
}

int verify(const Arguments& arguments) {
  Options options;
  AnswerLine line(
      "verify",
      "Show that the layout does not change what a run learns. Small models train in many layouts, each on ranks that "
      "are threads of this process. Every loss, gradient, weight and slot of the optimizer is compared with the "
      "training on one rank. Exit code 0: every layout keeps its promise. 1: one does not, or its run ended with an error. 2: "
      "the errors are ones that you can mend.");
  declare(line, options);
  if (!line.read(arguments)) return 0;
  if (const auto job = comm::find_mpi_job()) {
    throw UserError(fmt::format("verify under {}: its ranks are threads of one process", job->launcher),
                    fmt::format("start it without {}", job->launcher));
  }
  const bool gpu = options.device == "cuda";
  line.demand(!gpu || (options.against.empty() && !options.serve), "--device cuda: --against and --serve are of the processor",
              "leave --device out");
  line.check();
  if (gpu) tell_of_device_option([] { open_runtime(choose_device("cuda", 0), {.threads = 1}); });
  if (!options.against.empty()) return verify_against(options.against, line);
  const lab::VerifyOptions wanted = verify_options(options, line);
  if (options.serve) return verify_serving(wanted.models, line);
  const std::string* model = nullptr;
  Answer answer;
  const auto tell = [&](const lab::LayoutReport& report) {
    if (model == nullptr || *model != report.model) {
      const auto& of = *std::ranges::find(wanted.models, report.model, &lab::VerifyModel::name);
      answer.say((model == nullptr ? "" : "\n") + table_head(of, wanted.steps));
      model = &of.name;
    }
    answer.say(table_line(report));
    line.show(answer);
  };
  const std::vector<lab::LayoutReport> reports = lab::verify(wanted, tell);
  answer.facts(
      {{"dtype", options.dtype}, {"device", options.device}, {"optimizer", options.optimizer}, {"holds", all_hold(reports)}});
  answer.rows("layouts", table_of(reports));
  answer.say("\n" + summary(reports));
  line.print(answer);
  if (!options.html.empty()) io::replace_file(options.html, to_html(wanted.models, reports));
  return exit_code(reports);
}

}  // namespace

Command verify_command() { return {"verify", "show that the layout does not change what is learnt", verify}; }

}  // namespace lockstep::app
