#include "app/verify/against.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/parameters.h"
#include "base/units.h"
#include "device/topology.h"
#include "lab/against/judge.h"

namespace lockstep::app {
namespace {

using namespace lab::against;

std::string head(const std::string& path, const Step& step) {
  const Question& question = step.right().question;
  const auto taught = std::ranges::count_if(question.batch.targets, [](std::int64_t target) { return target >= 0; });
  const std::size_t files = step.dump().ranks.size();
  return fmt::format("{}: {} blocks of width {}, {} parameters; {} x {} tokens, {} taught; {}; {} file{}\n", path,
                     question.config.layers, question.config.width, format_count(arch::count_parameters(question.config).total),
                     question.batch.rows, question.batch.columns, taught, step.dtype(), files, files == 1 ? "" : "s");
}

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * share); }

/// The names of the tensors, each once, the first ones.
std::string some_of(const std::vector<std::string>& names, std::size_t most) {
  std::vector<std::string> once;
  for (const std::string& name : names) {
    if (std::ranges::count(once, name) == 0) once.push_back(name);
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(most, once.size()); ++i) text += (i == 0 ? "" : ", ") + once[i];
  return once.size() > most ? fmt::format("{} and {} more", text, once.size() - most) : text;
}

std::string told(const Finding& finding) {
  return fmt::format("{}{}: off by {} of its size, where rounding may do {}\n  {}\n", finding.tensor,
                     finding.rank.empty() ? "" : " of " + finding.rank, percent(finding.off), percent(finding.allowed),
                     finding.worst);
}

std::string told(const Fault& fault) {
  std::string text = "WRONG first: " + told(fault.wrong.front());
  if (fault.wrong.size() > 1) {
    std::vector<std::string> names;
    for (const Finding& finding : fault.wrong) names.push_back(finding.tensor);
    text += fmt::format("  {} more behind it: {}\n", fault.wrong.size() - 1, some_of({names.begin() + 1, names.end()}, 3));
  }
  if (fault.causes.empty()) {
    text += fmt::format("why: not known. None of {} wrong ways, recomputed, has these values", fault.tried);
    for (const Cause& near : fault.nearest)
      text += fmt::format("\n  not all of it: {} ({} left open)", near.sentence, percent(near.excess));
    return text + "\n";
  }
  const Cause& cause = fault.causes.front();
  text += fmt::format("why: {} [{}]\n", cause.sentence, cause.word);
  if (cause.excess > 0)
    text += fmt::format("  recomputed so, all that is wrong agrees: {} of what rounding may do\n", percent(cause.excess));
  if (!cause.only.empty()) text += fmt::format("  only in {}\n", some_of(cause.only, 4));
  if (cause.rest_open) text += "  what comes behind it cannot be recomputed, and is not judged\n";
  for (std::size_t i = 1; i < fault.causes.size(); ++i)
    text += fmt::format("  the same values come out when {} [{}]\n", fault.causes[i].sentence, fault.causes[i].word);
  return text;
}

Json facts_of(const Cause& cause) {
  return Json::Object{{"way", cause.word},
                      {"sentence", cause.sentence},
                      {"excess", cause.excess},
                      {"rest_open", cause.rest_open},
                      {"only", Json::Array(cause.only.begin(), cause.only.end())}};
}

void say(Answer& answer, const Judgement& judgement, const Step& step) {
  Json::Array causes;
  Table wrong = Table::of_keys({"tensor", "rank", "off", "allowed", "worst"});
  for (const Fault& fault : judgement.faults) {
    answer.say(told(fault));
    for (const Cause& cause : fault.causes) causes.push_back(facts_of(cause));
    for (const Finding& one : fault.wrong) wrong.row({one.tensor, one.rank, one.off, one.allowed, one.worst});
  }
  const bool agrees = judgement.faults.empty();
  if (agrees) {
    const std::size_t open = step.not_judged().size();
    answer.say(fmt::format("agrees: {} tensors are what they should be; the farthest is off by {} of what rounding may do{}\n",
                           judgement.judged, percent(judgement.worst),
                           open == 0 ? "" : fmt::format("; {} are not judged", open)));
  }
  for (const std::string& remark : judgement.remarks) answer.say(fmt::format("note: {}\n", remark));
  const std::vector<std::string>& open = step.not_judged();
  for (std::size_t i = 0; i < std::min<std::size_t>(open.size(), 3); ++i) answer.say(fmt::format("not judged: {}\n", open[i]));
  if (open.size() > 3) answer.say(fmt::format("not judged: {} more tensors (--json names them)\n", open.size() - 3));
  answer.facts({{"agrees", agrees},
                {"judged", static_cast<std::int64_t>(judgement.judged)},
                {"dtype", step.dtype()},
                {"causes", causes},
                {"remarks", Json::Array(judgement.remarks.begin(), judgement.remarks.end())},
                {"not_judged", Json::Array(open.begin(), open.end())}});
  answer.rows("wrong", wrong);
}

}  // namespace

int verify_against(const std::string& path, AnswerLine& line) {
  Team team(static_cast<int>(neighbouring_cores().size()));
  const Dump dump = read_dump(path);
  const checkpoint::huggingface::Weights weights(dump.model);
  const Step step(dump, weights, team);
  Answer answer;
  answer.say(head(path, step));
  line.show(answer);
  const Judgement judgement = judge(step, team);
  say(answer, judgement, step);
  line.print(answer);
  return judgement.faults.empty() ? 0 : 1;
}

}  // namespace lockstep::app
