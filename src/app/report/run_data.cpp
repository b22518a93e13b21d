#include "app/report/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "app/settings/keys.h"
#include "app/settings/run_layout.h"
#include "base/median.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::app {
namespace {

double median_over(const std::vector<train::LoggedStep>& steps, const auto& figure) {
  std::vector<double> values;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) values.push_back(figure(steps[i]));
  return median_of(std::move(values));
}

double place_of(const train::LoggedStep& step, bool by_tokens) {
  return by_tokens ? step.all_tokens : static_cast<double>(step.step);
}

}  // namespace

double RunData::tokens_per_second() const {
  return median_over(steps, [](const train::LoggedStep& step) { return step.tokens_per_second; });
}
double RunData::seconds() const {
  return median_over(steps, [](const train::LoggedStep& step) { return step.seconds; });
}

// Logged is a running mean, which begins with the first step's own: that tells the peak.
double RunData::mfu() const {
  const train::LoggedStep& first = steps.front();
  const std::optional<double> tflops = tflops_per_rank();
  const double faster = tflops && first.tflops_per_rank ? *tflops / *first.tflops_per_rank : first.seconds / seconds();
  return first.mfu * faster;
}

std::optional<double> RunData::hfu() const {
  const train::LoggedStep& first = steps.front();
  return first.hfu ? std::optional(mfu() * (*first.hfu / first.mfu)) : std::nullopt;
}

std::optional<double> RunData::tflops_per_rank() const {
  if (!steps.back().tflops_per_rank) return std::nullopt;
  return median_over(steps, [](const train::LoggedStep& step) { return step.tflops_per_rank.value_or(0); });
}

std::optional<comm::Exchanged> RunData::exchanged(comm::Purpose purpose) const {
  if (!steps.back().exchanged) return std::nullopt;
  const auto median = [&](auto comm::Exchanged::* figure) {
    return median_over(steps, [&](const train::LoggedStep& step) {
      return step.exchanged ? static_cast<double>(step.exchanged->of(purpose).*figure) : 0;
    });
  };
  return comm::Exchanged{static_cast<std::int64_t>(median(&comm::Exchanged::sent)), median(&comm::Exchanged::waited),
                         median(&comm::Exchanged::hidden)};
}

double RunData::thread_peak() const { return resources ? resources->peak_flops / static_cast<double>(resources->threads) : 0; }

std::array<double, train::kStepParts> RunData::account() const {
  std::array<double, train::kStepParts> all{};
  for (std::size_t part = 0; part < train::kStepParts; ++part)
    all[part] = median_over(steps, [&](const train::LoggedStep& step) { return step.parts[part]; });
  double& lost = all[static_cast<std::size_t>(train::StepPart::lost)];
  lost = 0;
  for (const train::LoggedStep& step : steps) lost += step.in(train::StepPart::lost) / static_cast<double>(steps.size());
  return all;
}

std::string name_of(train::StepPart part, const std::vector<RunData>& runs) {
  std::set<int> ranks;
  for (const RunData& run : runs) {
    for (const train::LoggedStep& step : run.steps) {
      if (step.late_rank) ranks.insert(*step.late_rank);
    }
  }
  if (part == train::StepPart::lost && ranks.size() == 1) return fmt::format("lost to rank {}", *ranks.begin());
  return std::string(train::name_of(part));
}

std::optional<double> RunData::waiting() const {
  if (!steps.back().pipeline) return std::nullopt;
  return median_over(steps, [](const train::LoggedStep& step) {
    return step.pipeline && step.pipeline->all > 0 ? step.pipeline->waiting / step.pipeline->all : 0;
  });
}

std::optional<double> RunData::noise_scale() const {
  parallel::GradientNoise all;
  for (const train::LoggedStep& step : steps) all += step.noise.value_or(parallel::GradientNoise{});
  return all.scale();
}

Series RunData::noise(bool by_tokens) const {
  Series series{.name = label, .x = {}, .y = {}};
  parallel::GradientNoise last;
  for (const train::LoggedStep& step : steps) {
    if (!step.noise) continue;
    last.square *= 0.9;
    last.variance *= 0.9;
    last += *step.noise;
    if (const std::optional<double> scale = last.scale()) {
      series.x.push_back(place_of(step, by_tokens));
      series.y.push_back(*scale);
    }
  }
  return series;
}

Series RunData::loss(bool by_tokens) const {
  Series series{.name = label, .x = {}, .y = {}};
  for (const train::LoggedStep& step : steps) {
    if (!step.has_loss) continue;
    series.x.push_back(place_of(step, by_tokens));
    series.y.push_back(step.loss);
  }
  return series;
}

std::optional<double> RunData::last_loss() const {
  const auto last = std::ranges::find_if(steps.rbegin(), steps.rend(), &train::LoggedStep::has_loss);
  return last == steps.rend() ? std::nullopt : std::optional(last->loss);
}

// A step has as many tokens as the first one behind it that was logged.
double RunData::tokens_at(std::int64_t step) const {
  auto logged = std::ranges::lower_bound(steps, step, {}, &train::LoggedStep::step);
  if (logged == steps.end()) --logged;
  return logged->all_tokens + static_cast<double>(step - logged->step) * logged->tokens;
}

Series RunData::curve(double train::LoggedStep::* figure, bool by_tokens) const {
  Series series{.name = label, .x = {}, .y = {}};
  for (const train::LoggedStep& step : steps) {
    series.x.push_back(place_of(step, by_tokens));
    series.y.push_back(step.*figure);
  }
  return series;
}

Series RunData::validation(bool by_tokens) const {
  Series series{.name = label + " (validation)", .x = {}, .y = {}};
  for (const train::Losses& losses : evaluations) {
    series.x.push_back(by_tokens ? tokens_at(losses.step) : static_cast<double>(losses.step));
    series.y.push_back(losses.validation);
  }
  return series;
}

std::string RunData::layout() const { return layout::describe(layout_of(config, ranks())); }

std::optional<layout::Timeline> RunData::schedule() const {
  const layout::ParallelPlan plan = layout_of(config, ranks());
  const layout::NamedSchedule* named = layout::find_schedule(plan.schedule);
  if (plan.pp == 1 || named == nullptr) return std::nullopt;
  const layout::PipelineShape shape{.ranks = plan.pp, .chunks = plan.chunks, .microbatches = plan.microbatches};
  if (!check(*named, shape).empty()) return std::nullopt;
  const layout::StageMap map = stage_map(*named, shape);
  return simulate(with_messages(named->passes(shape), map), map);
}

bool compares_by_tokens(const std::vector<RunData>& runs) {
  const double tokens = runs[0].steps[0].tokens;
  return std::ranges::any_of(runs, [&](const RunData& run) {
    return std::ranges::any_of(run.steps, [&](const train::LoggedStep& step) { return step.tokens != tokens; });
  });
}

std::vector<SettingRow> setting_rows(const std::vector<RunData>& runs) {
  std::vector<RunConfig> columns;
  if (runs.size() == 1) columns.emplace_back();
  for (const RunData& run : runs) columns.push_back(run.config);
  std::vector<SettingRow> rows;
  for (const settings::Key& key : settings::keys()) {
    if (key.name == "log.dir" || key.name == "log.name") continue;
    SettingRow row{.key = key.name, .values = {}};
    for (const RunConfig& config : columns) row.values.push_back(settings::shown(key.get(config)));
    row.differs = std::ranges::any_of(row.values, [&](const std::string& value) { return value != row.values[0]; });
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::app
