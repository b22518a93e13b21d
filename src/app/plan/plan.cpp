// `lockstep plan`: questions about a run that need no run.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/commands.h"
#include "app/help.h"
#include "app/plan/questions.h"
#include "base/error.h"

namespace lockstep::app {
namespace {

struct Question {
  std::string_view word, summary;
  int (*run)(const Arguments& arguments);
};

// A word of its own stands first; an option anywhere.
constexpr std::array<Question, 13> questions{
    {{"--check", "a run that has trained: its memory and step predicted, beside what it measured", plan_check},
     {"--simulate", "a recipe's step on a machine pass by pass, with its memory, and a trace", plan_simulate},
     {"--machine", "the fastest layouts of a --model, what they take, and why others lose", plan_search},
     {"--model", "the same, of a --machine", plan_search},
     {"--advise", "which kinds of parallelism a model and a machine call for, and why", plan_advise},
     {"--published", "what papers measured on A100s beside what the planner says", plan_published},
     {"--draw", "a pipeline's schedule: what each rank does when, and who waits", plan_draw},
     {"--compare", "all schedules for the same ranks and micro-batches, a line each", plan_draw},
     {"flops", "TFLOPS a device of a step that was timed", plan_flops},
     {"network", "whether a network keeps up with devices that share a model's state", plan_network},
     {"memory", "activations by the rule of thumb, beside what a run of ours declares", plan_memory},
     {"waves", "how well a product's tiles fill a device", plan_waves},
     {"law", "bytes of parameters and optimizer with each ZeRO stage", plan_law}}};

const Question* asked(const Arguments& arguments) {
  const auto is_option = [](const Question& question) { return question.word.starts_with("--"); };
  for (const Question& question : questions) {
    if (!is_option(question) && !arguments.empty() && arguments.front() == question.word) return &question;
  }
  for (const Question& question : questions) {
    const auto names = [&](const std::string& word) { return word.substr(0, word.find('=')) == question.word; };
    if (is_option(question) && std::ranges::any_of(arguments, names)) return &question;
  }
  return nullptr;
}

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
  const bool wants_help = std::ranges::any_of(arguments, [](const auto& word) { return word == "--help" || word == "-h"; });
  if (const Question* question = asked(arguments)) {
    // A question that is an option wants a value, and would take --help for it.
    if (wants_help) return question->run({"--help"});
    const auto first = arguments.begin() + (question->word.starts_with("--") ? 0 : 1);
    return question->run({first, arguments.end()});
  }
  if (wants_help) {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  if (arguments.empty()) throw UserError("plan: there is nothing to do", "lockstep plan --help lists what it can be asked");
  std::vector<std::string> words;
  for (const Question& question : questions) words.emplace_back(question.word);
  const std::string near = nearest_name(arguments.front(), words);
  throw UserError(fmt::format("plan: '{}' is no question", arguments.front()),
                  near.empty() ? "lockstep plan --help lists them" : fmt::format("did you mean {}?", near));
}

}  // namespace

Command plan_command() { return {"plan", "answers about layouts, memory and time, without a run", plan}; }

}  // namespace lockstep::app
