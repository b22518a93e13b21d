#include "app/verify/serving.h"

#include <fmt/format.h>

#include <algorithm>

#include "lab/verify/serving.h"

namespace lockstep::app {

int verify_serving(const std::vector<lab::VerifyModel>& models, AnswerLine& line) {
  Answer answer;
  std::string_view model;
  const auto tell = [&](const lab::ServingReport& report) {
    if (report.model != model) answer.say(fmt::format("{}{}\n", model.empty() ? "" : "\n", report.model));
    model = std::ranges::find(models, report.model, &lab::VerifyModel::name)->name;
    const std::string verdict =
        report.different == 0 ? "the same" : fmt::format("WRONG: {} differ, first {}", report.different, report.first);
    answer.say(fmt::format("  {:<46} {} texts, {} tokens, {} of prompts not read again: {}\n", report.words, report.texts,
                           report.tokens, report.saved, verdict));
    line.show(answer);
  };
  const std::vector<lab::ServingReport> reports = lab::verify_serving(models, lab::serving_cases(), tell);
  Table table = Table::of_keys({"model", "case", "texts", "tokens", "prompt_tokens_saved", "different", "first"});
  for (const lab::ServingReport& report : reports)
    table.row({report.model, report.words, report.texts, report.tokens, report.saved, report.different, report.first});
  const auto wrong = std::ranges::count_if(reports, [](const lab::ServingReport& report) { return report.different > 0; });
  answer.rows("serving", table);
  answer.fact("holds", wrong == 0);
  answer.say(fmt::format("\n{} ways to write the texts; in {} a text is another one than alone\n", reports.size(), wrong));
  line.print(answer);
  return wrong == 0 ? 0 : 1;
}

}  // namespace lockstep::app
