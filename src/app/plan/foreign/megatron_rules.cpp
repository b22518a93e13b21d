// The rules are those of validate_args() (megatron/training/arguments.py), of TransformerConfig, and of transformer_block.py.

#include "app/plan/foreign/megatron_rules.h"

#include <fmt/format.h>

#include <numeric>

#include "app/plan/foreign/megatron_table.h"

namespace lockstep::app::megatron {
namespace {

std::optional<Problem> about_heads(const RunConfig& config) {
  const std::int64_t tp = config.parallel.tp, heads = config.model.n_head, groups = config.model.n_kv_head.value_or(heads);
  const auto refusal = [&](std::string_view name, std::int64_t number, std::string_view rule) {
    return Problem{fmt::format("{} {}: Megatron-LM starts only with {} of {} {}", name, number, rule, tensor_ranks, tp),
                   fmt::format("{} {}", tensor_ranks, std::gcd(number, tp))};
  };
  if (heads % tp != 0) return refusal("--num-attention-heads", heads, "a multiple");
  if (groups % tp != 0 && tp % groups != 0) return refusal("--num-query-groups", groups, "a multiple or a divisor");
  return std::nullopt;
}

/// Layers of stages that no layout lists.
std::optional<Problem> about_even_stages(const RunConfig& config, const StagesAsked& asked) {
  const std::int64_t pp = config.parallel.pp, blocks = config.model.n_layer;
  std::int64_t counted = blocks;
  for (const char* end : {"--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"})
    counted += asked.given.contains(end) ? 1 : 0;
  for (const char* end : {"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"}) {
    if (asked.given.contains(end)) return std::nullopt;  // which the planner does not count
  }
  const auto refusal = [&](std::int64_t number, std::string_view of, std::string_view divisor, std::int64_t by) {
    return Problem{fmt::format("{} {}: Megatron-LM starts only where {} {} divides the {} layers{}", layers, blocks, divisor, by,
                               number, of),
                   fmt::format("{} {}, or {}", divisor, std::gcd(number, by), stages)};
  };
  if (counted % pp != 0) return refusal(counted, "", pipeline_ranks, pp);
  if (asked.layers_of_chunk && counted / pp % *asked.layers_of_chunk != 0)
    return refusal(counted / pp, " of a rank", virtual_layers, *asked.layers_of_chunk);
  if (asked.chunks && counted / pp % *asked.chunks != 0)
    return refusal(counted / pp, " of a rank", virtual_stages, *asked.chunks);
  return std::nullopt;
}

std::optional<Problem> about_stages(const RunConfig& config, const StagesAsked& asked) {
  const std::int64_t pp = config.parallel.pp, blocks = config.model.n_layer;
  const bool listed = asked.given.contains(stages);
  if ((asked.chunks ? 1 : 0) + (asked.layers_of_chunk ? 1 : 0) + (listed ? 1 : 0) > 1) {
    return Problem{
        fmt::format("{}, {} and {}: Megatron-LM starts with one of them at most", virtual_stages, virtual_layers, stages),
        "leave the others out"};
  }
  if (listed) return std::nullopt;
  const std::int64_t chunks = asked.layers_of_chunk ? blocks / pp / *asked.layers_of_chunk : asked.chunks.value_or(1);
  const bool waits = asked.given.contains(waits_for_messages);
  if (const std::int64_t least = waits ? 3 : 2; chunks > 1 && pp < least) {
    return Problem{fmt::format("{} {}: Megatron-LM interleaves stages only on {} ranks or more{}", pipeline_ranks, pp, least,
                               waits ? fmt::format(" with {}", waits_for_messages) : ""),
                   fmt::format("{} {}, or no virtual stages", pipeline_ranks, 4)};
  }
  if (pp == 1 || pp * chunks > blocks) return std::nullopt;  // the latter has fewer layers than stages
  return about_even_stages(config, asked);
}

}  // namespace

std::vector<Problem> why_not_started(const RunConfig& config, const StagesAsked& asked) {
  std::vector<Problem> problems;
  if (auto heads = about_heads(config)) problems.push_back(std::move(*heads));
  if (auto stages_problem = about_stages(config, asked)) problems.push_back(std::move(*stages_problem));
  return problems;
}

}  // namespace lockstep::app::megatron
