// `lockstep plan`: questions about a run that need no run.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/cli/commands.h"
#include "app/plan/questions.h"
#include "base/error.h"
#include "base/text/columns.h"

namespace lockstep::app {
namespace {

struct Question {
  std::string_view word, summary;
  int (*run)(const Arguments& arguments);
};

constexpr std::array<Question, 12> questions{
    {{"search", "the fastest layouts of a model on a machine, what they take, and why others lose", plan_search},
     {"advise", "which kinds of parallelism a model and a machine call for, and why", plan_advise},
     {"simulate", "a recipe's step on a machine pass by pass, with its memory, and a trace", plan_simulate},
     {"check", "a run that has trained: its memory and step predicted, beside what it measured", plan_check},
     {"draw", "a pipeline's schedule: what each rank does when, and who waits", plan_draw},
     {"compare", "all schedules for the same ranks and micro-batches, a line each", plan_compare},
     {"published", "what papers measured on A100s beside what the planner says", plan_published},
     {"flops", "TFLOPS a device of a step that was timed", plan_flops},
     {"network", "whether a network keeps up with devices that share a model's state", plan_network},
     {"memory", "activations by the rule of thumb, beside what a run of ours declares", plan_memory},
     {"waves", "how well a product's tiles fill a device", plan_waves},
     {"law", "bytes of parameters and optimizer with each ZeRO stage", plan_law}}};

std::string help() {
  std::vector<HelpRow> rows;
  for (const Question& question : questions) rows.push_back({std::string(question.word), std::string(question.summary)});
  return fmt::format(
      "usage: lockstep plan QUESTION [options]\n\n{}\n\nquestions:\n{}\n"
      "lockstep plan QUESTION --help says more. docs/planner.md explains the answers.\n",
      folded("Answers about a run from its sizes alone: nothing is trained, and no rank and no device is needed.", 100),
      two_columns(rows));
}

int plan(const Arguments& arguments) {
  if (arguments.empty()) throw UserError("plan: there is nothing to do", "lockstep plan --help lists what it can be asked");
  const std::string& word = arguments.front();
  if (word == "--help" || word == "-h") {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  const auto asked = std::ranges::find(questions, word, &Question::word);
  if (asked != questions.end()) return asked->run({arguments.begin() + 1, arguments.end()});
  std::vector<std::string> words;
  for (const Question& question : questions) words.emplace_back(question.word);
  const std::string near = nearest_name(word.substr(std::min(word.find_first_not_of('-'), word.size())), words);
  throw UserError(fmt::format("plan: '{}' is no question", word),
                  near.empty() ? "lockstep plan --help lists them" : fmt::format("did you mean lockstep plan {}?", near));
}

}  // namespace

Command plan_command() { return {"plan", "answers about layouts, memory and time, without a run", plan}; }

}  // namespace lockstep::app
