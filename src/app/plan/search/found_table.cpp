#include "app/plan/search/found_table.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "app/plan/search/winner.h"
#include "arch/flops.h"
#include "base/text/visible.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

constexpr std::array<std::pair<const char*, double planner::StepTime::*>, 9> step_parts{
    {{"compute", &planner::StepTime::compute},
     {"recompute", &planner::StepTime::recompute},
     {"tensor_parallel", &planner::StepTime::tensor_parallel},
     {"messages", &planner::StepTime::messages},
     {"bubble", &planner::StepTime::bubble},
     {"gather", &planner::StepTime::gather},
     {"activations", &planner::StepTime::activations},
     {"replicas", &planner::StepTime::replicas},
     {"optimizer", &planner::StepTime::optimizer}}};

}  // namespace

Use use_of(const planner::SearchQuestion& question, const planner::Found& found) {
  const planner::Work& work = question.work;
  const double tokens = static_cast<double>(question.global_batch * work.positions);
  const double each = 1 / (found.time.total() * static_cast<double>(work.machine.ranks()));
  const double model = arch::training_flops_per_token(work.model, work.positions) * tokens * each;
  // Recomputation is forward's third, as far as time says.
  const double recompute = found.time.compute > 0 ? found.time.recompute / found.time.compute : 0;
  return {model / 1e12, model / work.machine.peak_flops, model * (1 + recompute) / work.machine.peak_flops};
}

std::string asked_text(const planner::SearchQuestion& question) {
  const planner::Work& work = question.work;
  return fmt::format("({} parameters) on {}: {} x {} devices; {} samples of {} tokens a step", format_si(work.parameters),
                     visible(work.machine.name), work.machine.nodes, work.machine.devices, format_count(question.global_batch),
                     format_count(work.positions));
}

double waiting_for_ranks(const planner::StepTime& time) {
  return time.tensor_parallel + time.messages + time.gather + time.replicas;
}

std::string layout_text(const std::vector<std::string>& settings) {
  std::string text;
  for (const std::string& setting : settings) {
    if (!setting.starts_with("train.")) text += setting.substr(setting.find('.') + 1) + " ";
  }
  text.pop_back();
  return text;
}

Table table_of(const planner::SearchQuestion& question, const std::vector<planner::Found>& layouts,
               const std::vector<std::string>& names) {
  std::vector<Column> columns{{""},
                              {"step_seconds", "step"},
                              {"mfu", "MFU", "{:.1f} %", 100},
                              {"hfu", "HFU", "{:.1f} %", 100},
                              {"tflops", "TFLOPS"},
                              {"device_bytes", "memory"},
                              {"", "waiting", "{:.1f} %", 100},
                              {"", "bubble", "{:.1f} %", 100},
                              {"", "layout"}};
  for (const char* key : {"host_bytes", "disk_bytes", "settings", "ranked_seconds"}) columns.push_back({key, "", ""});
  for (const auto& [key, part] : step_parts) columns.push_back({key, "", ""});
  Table table(std::move(columns));
  for (const planner::Found& found : layouts) {
    const Use use = use_of(question, found);
    const double total = found.time.total();
    const std::vector<std::string> words = settings_of(question.work, found.candidate);
    const auto place = static_cast<std::size_t>(&found - layouts.data());
    std::vector<Cell> cells{names.empty() ? Cell(1 + place) : Cell(names[place]),
                            {total, format_seconds(total)},
                            use.mfu,
                            use.hfu,
                            {use.tflops, fmt::format("{:.{}f}", use.tflops, use.tflops < 9.95 ? 2 : 0)},
                            {found.memory.bytes, format_bytes(static_cast<std::uint64_t>(found.memory.bytes))},
                            (waiting_for_ranks(found.time) + found.time.activations) / total,
                            found.time.bubble / total,
                            layout_text(words),
                            found.memory.host_bytes,
                            found.memory.disk_bytes,
                            Json::Array(words.begin(), words.end()),
                            planner::ranked_seconds(found)};
    for (const auto& [key, part] : step_parts) cells.emplace_back(found.time.*part);
    table.row(std::move(cells));
  }
  return table;
}

void say_duration(const planner::SearchQuestion& question, double tokens, double price, const planner::Found& found,
                  Answer& answer) {
  if (tokens <= 0) return;
  const double steps = tokens / static_cast<double>(question.global_batch * question.work.positions);
  const double hours = steps * found.time.total() / 3600;
  answer.say(fmt::format("\n{} tokens: {:.0f} steps, {:.1f} days", format_si(tokens), steps, hours / 24));
  answer.facts({{"steps", steps}, {"days", hours / 24}});
  if (price > 0) {
    const double cost = hours * static_cast<double>(question.work.machine.ranks()) * price;
    answer.say(fmt::format(", {} at {:g} for a device's hour", format_si(cost), price));
    answer.fact("price", cost);
  }
  answer.say("\n");
}

}  // namespace lockstep::app
