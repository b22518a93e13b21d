#include "planner/published_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "arch/flops.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/median.h"
#include "base/number_text.h"
#include "planner/memory.h"

namespace lockstep::planner {
namespace {

class Reader {
 public:
  Reader(std::string_view csv, const std::string& name, const System* system) : name_(name), system_(system) {
    for (std::string& line : parts_of_list(csv, '\n')) {
      if (line.ends_with('\r')) line.pop_back();
      lines_.push_back(std::move(line));
    }
  }

  PublishedFile read() {
    columns_ = parts_of_list(lines_.front());
    for (const std::string_view needed : {"gpu", "gpus", "n_layer", "n_head", "n_embd", "vocab", "seq", "tokens_per_s_per_gpu"}) {
      if (!has(needed)) wrong(fmt::format("no column {}", needed), "plan published --help lists the columns");
    }
    for (line_ = 1; problems_.empty() && line_ < lines_.size(); ++line_) {
      if (lines_[line_].empty()) continue;
      cells_ = parts_of_list(lines_[line_]);
      if (cells_.size() != columns_.size()) {
        wrong(fmt::format("{} cells, {} columns", cells_.size(), columns_.size()), "as many cells as the first line has names");
      } else if (text("activation_offload") == "true" || text("dtype").find("fp8") != std::string::npos) {
        ++file_.left_out;
      } else {
        file_.rows.push_back(row());
      }
    }
    if (!problems_.empty()) throw UserError(std::move(problems_));
    return std::move(file_);
  }

 private:
  bool has(std::string_view column) const { return std::ranges::find(columns_, column) != columns_.end(); }
  std::string text(std::string_view column, std::string_view otherwise = {}) const {
    const auto at = std::ranges::find(columns_, column);
    if (at == columns_.end()) return std::string(otherwise);
    const std::string& cell = cells_[static_cast<std::size_t>(at - columns_.begin())];
    return cell.empty() ? std::string(otherwise) : cell;
  }
  std::int64_t count(std::string_view column, std::int64_t otherwise = 0) {
    if (otherwise > 0 && text(column).empty()) return otherwise;
    const auto value = number_from<std::int64_t>(text(column));
    if (value && *value >= 1 && *value <= 1 << 24) return *value;
    wrong(fmt::format("{} = {}: must be a whole number from 1 to {}", column, text(column), 1 << 24),
          fmt::format("{} 8", column));
    return 1;
  }
  double amount(std::string_view column) {
    const auto value = number_from<double>(text(column));
    if (value && *value > 0 && *value < 1e15) return *value;
    wrong(fmt::format("{} = {}: must be above 0", column, text(column)), fmt::format("{} 1000", column));
    return 1;
  }
  void wrong(std::string message, std::string remedy) {
    problems_.push_back({fmt::format("{}:{}: {}", name_, line_ + 1, message), std::move(remedy)});
  }

  PublishedRow row() {
    PublishedRow one;
    one.source = text("source");
    one.gpu = text("gpu");
    one.name = text("model");
    one.positions = count("seq");
    one.tokens = amount("tokens_per_s_per_gpu");
    if (!text("memory_gib").empty()) one.memory = amount("memory_gib") * 0x1p30;
    take_model(one.model);
    take_machine(one);
    one.system = system();
    take_plan(one);
    return one;
  }
  void take_model(arch::ModelConfig& model) {
    model.layers = count("n_layer");
    model.heads = count("n_head");
    model.kv_heads = count("n_kv_head", model.heads);
    model.width = count("n_embd");
    model.head_size = std::max<std::int64_t>(1, model.width / model.heads);
    model.gated = !text("ffn_width").empty();
    model.ffn_width = count("ffn_width", arch::usual_ffn_width(model.width, false));
    model.vocabulary = count("vocab");
    model.block_size = count("seq");
    model.tied = !model.gated;
  }
  void take_machine(PublishedRow& one) {
    const Machine* preset = find_machine(one.gpu);
    if (preset == nullptr) return wrong(fmt::format("gpu = {}: there is no such preset", one.gpu), "a preset of --machine");
    one.machine = *preset;
    one.machine.devices = std::min(count("gpus"), count("gpus_per_node", preset->devices));
    one.machine.nodes = div_up(count("gpus"), one.machine.devices);
  }
  System system() {
    const std::string source = text("source");
    System one = source.starts_with("torchtitan") ? torchtitan : source.starts_with("megatron") ? megatron : fsdp;
    if (system_ != nullptr) one = *system_;
    if (one.name == torchtitan.name && text("compile") == "no") one = eager_torchtitan;
    if (text("async_tp") == "yes") one.hidden_sums = System::HiddenSums::all;
    if (text("mixed_precision") == "PURE") one.gradient_bytes = 2;
    return one;
  }
  void take_plan(PublishedRow& one) {
    layout::ParallelPlan& plan = one.candidate.plan;
    one.candidate.samples = has("local_batch") ? count("local_batch") : count("micro_batch");
    plan.tp = static_cast<int>(count("tp", 1));
    plan.sequence = plan.tp > 1;
    plan.dp = static_cast<int>(std::max<std::int64_t>(1, count("gpus") / plan.tp));
    plan.ranks_per_host = static_cast<int>(one.machine.devices);
    plan.microbatches = static_cast<int>(
        has("global_batch") ? std::max<std::int64_t>(1, count("global_batch") / (plan.dp * one.candidate.samples))
                            : count("grad_accum", 1));
    set_zero_level(plan, text("sharding") == "SHARD_GRAD_OP" ? 2 : one.system.name == megatron.name ? 1 : 3);
    if (one.system.reduces_microbatches) plan.reduce = layout::ReduceEvery::microbatch;
    if (const auto again = layout::recompute_from(text("recompute", "none"))) {
      plan.recompute = *again;
    } else {
      wrong(fmt::format("recompute = {}: is none of its words", text("recompute")), "none, selective or full");
    }
  }

  const std::string& name_;
  const System* system_;
  std::vector<std::string> lines_, columns_, cells_;
  std::size_t line_ = 0;
  PublishedFile file_;
  std::vector<Problem> problems_;
};

}  // namespace

double PublishedRow::predicted_tokens(const System& by) const {
  const Work work(model, positions, machine, by);
  return static_cast<double>(candidate.samples * positions) * candidate.plan.microbatches / candidate.plan.tp /
         step_time(work, candidate).total();
}

double PublishedRow::error(const System& by) const { return predicted_tokens(by) / tokens - 1; }

double PublishedRow::predicted_memory() const { return estimated_bytes({model, positions, machine, system}, candidate); }

double PublishedRow::hfu() const {
  const double again = candidate.plan.recompute.kind == layout::Recompute::Kind::full ? 4.0 / 3 : 1;
  return again * tokens * arch::training_flops_per_token(model, positions) / machine.peak_flops;
}

PublishedFile published_rows(std::string_view csv, const std::string& name, const System* system) {
  return Reader(csv, name, system).read();
}

Score score_of(std::vector<double> errors) {
  const auto within = [&](double part) {
    return static_cast<std::size_t>(std::ranges::count_if(errors, [&](double error) { return std::abs(error) <= part; }));
  };
  Score score{.rows = errors.size(), .within_10 = within(0.1), .within_20 = within(0.2)};
  score.median = median_of(std::move(errors));
  return score;
}

Score constant_score(const std::vector<const PublishedRow*>& rows) {
  Score best;
  for (const PublishedRow* chosen : rows) {
    std::vector<double> errors;
    for (const PublishedRow* row : rows) errors.push_back(chosen->hfu() / row->hfu() - 1);
    const Score score = score_of(std::move(errors));
    if (best.rows == 0 || std::tuple(score.within_10, score.within_20) > std::tuple(best.within_10, best.within_20)) best = score;
  }
  return best;
}

Regret regret_of(const std::vector<PublishedRow>& rows) {
  std::map<std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t>, std::vector<const PublishedRow*>> alike;
  for (const PublishedRow& row : rows) alike[{row.source, row.gpu, row.name, row.positions, row.machine.ranks()}].push_back(&row);
  Regret regret;
  for (const auto& [of, measured] : alike) {
    if (measured.size() < 2) continue;
    const PublishedRow* first =
        *std::ranges::max_element(measured, {}, [](auto* row) { return row->predicted_tokens(row->system); });
    const PublishedRow* best = *std::ranges::max_element(measured, {}, [](auto* row) { return row->tokens; });
    ++regret.choices;
    regret.best += first == best ? 1 : 0;
    regret.worst = std::max(regret.worst, best->tokens / first->tokens - 1);
  }
  return regret;
}

}  // namespace lockstep::planner
