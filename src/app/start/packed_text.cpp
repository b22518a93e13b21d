#include "app/start/packed_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "app/settings/keys.h"
#include "base/values/choice.h"
#include "train/objective/objective.h"

namespace lockstep::app {

std::vector<std::string> settings_for(const data::Packing& packing) {
  return {fmt::format("model.block_size={}", packing.length), "data.order=partition",
          packing.pairs ? "train.objective=dpo" : "data.documents=true"};
}

namespace {

std::vector<Problem> check_packed(const RunConfig& config, const data::Packing& packing) {
  std::vector<Problem> problems;
  for (const std::string& setting : settings_for(packing)) {
    const std::size_t sign = setting.find('=');
    const std::string name = setting.substr(0, sign), wanted = setting.substr(sign + 1);
    const std::string has = settings::shown(settings::find_key(name)->get(config));
    if (has == wanted) continue;
    const std::string windows = packing.pairs ? fmt::format("are pairs of conversations, {} tokens for each", packing.length)
                                              : fmt::format("have whole documents of {} tokens together", packing.length);
    problems.push_back({fmt::format("{} = {}: the windows of {} {}", name, has, data_folder(config), windows), setting});
  }
  return problems;
}

std::vector<Problem> check_objective(const RunConfig& config, const data::Corpus& corpus) {
  const train::ObjectiveRow& row = train::row_of(config.train.objective);
  const std::string set = fmt::format("train.objective = {}: ", word_of(row.kind));
  if (row.make != nullptr && !(corpus.packing && corpus.packing->pairs)) {
    return {{fmt::format("{}{} has no pairs", set, data_folder(config)),
             "prepare pairs: JSONL with \"prompt\", \"chosen\" and \"rejected\", and --length"}};
  }
  if (row.needs_mask && corpus.train.mask_path().empty()) {
    return {{fmt::format("{}{} does not say which of its tokens are taught", set, data_folder(config)),
             "prepare conversations, or prompts with completions; train.objective=lm teaches all tokens"}};
  }
  return {};
}

}  // namespace

std::vector<Problem> check_text(const RunConfig& config, const data::Corpus& corpus) {
  std::vector<Problem> problems = check_objective(config, corpus);
  if (corpus.packing) std::ranges::move(check_packed(config, *corpus.packing), std::back_inserter(problems));
  return problems;
}

}  // namespace lockstep::app
