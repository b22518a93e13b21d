#include "arch/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "arch/shard_rules.h"
#include "base/text/trimmed.h"

namespace lockstep::arch {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(AdapterTarget::count)> target_names{"q",    "k",  "v",   "o",
                                                                                                    "gate", "up", "down"};

constexpr AdapterTargets of(std::initializer_list<AdapterTarget> targets) {
  AdapterTargets all = 0;
  for (const AdapterTarget target : targets) all |= bit_of(target);
  return all;
}

constexpr AdapterTargets qkv = of({AdapterTarget::query, AdapterTarget::key, AdapterTarget::value});
constexpr AdapterTargets attention = qkv | bit_of(AdapterTarget::out);
constexpr AdapterTargets gate_up = of({AdapterTarget::gate, AdapterTarget::up});
constexpr AdapterTargets mlp = gate_up | bit_of(AdapterTarget::down);

bool is_phi3(const ModelConfig& config) { return config.family == "phi3"; }
bool has_one_qkv(const ModelConfig& config) { return config.position == PositionKind::learned || is_phi3(config); }

bool some_of(AdapterTargets targets, AdapterTargets group) { return (targets & group) != 0 && (targets & group) != group; }

/// Features of a matrix: those that it gives, and those that it takes.
struct Sizes {
  std::int64_t out, in;
};

Sizes sizes_of(const AdapterSite& site, const layout::ShardedDims& dims) {
  const std::int64_t in = site.matrix == Role::attention_out_weight ? dims.attention_width()
                          : site.matrix == Role::down_weight        ? dims.ffn_width
                                                                    : dims.width;
  return {site.rows.count, in};
}

}  // namespace

std::vector<AdapterSite> adapter_sites(const ModelConfig& config, const layout::ShardedDims& dims) {
  const Adapter& adapter = config.adapter;
  std::vector<AdapterSite> sites;
  if (!adapter.used()) return sites;
  std::int64_t first = 0;
  const auto add = [&](bool wanted, Role matrix, Role a, Role b, std::int64_t rows, std::string_view name) {
    if (wanted) sites.push_back({matrix, a, b, {first, rows}, name});
    first += rows;
  };
  const auto on = [&](AdapterTarget target) { return adapter.on(target); };
  if (has_one_qkv(config)) {
    add((adapter.targets & qkv) != 0, Role::qkv_weight, Role::query_a, Role::query_b, dims.qkv_width(), "qkv");
  } else {
    add(on(AdapterTarget::query), Role::qkv_weight, Role::query_a, Role::query_b, dims.attention_width(), "q");
    add(on(AdapterTarget::key), Role::qkv_weight, Role::key_a, Role::key_b, dims.kv_width(), "k");
    add(on(AdapterTarget::value), Role::qkv_weight, Role::value_a, Role::value_b, dims.kv_width(), "v");
  }
  first = 0;
  add(on(AdapterTarget::out), Role::attention_out_weight, Role::out_a, Role::out_b, dims.width, "o");
  first = 0;
  if (config.gated && is_phi3(config)) {
    add((adapter.targets & gate_up) != 0, Role::up_weight, Role::up_a, Role::up_b, dims.up_width(), "gate_up");
  } else {
    if (config.gated) add(on(AdapterTarget::gate), Role::up_weight, Role::gate_a, Role::gate_b, dims.ffn_width, "gate");
    add(on(AdapterTarget::up), Role::up_weight, Role::up_a, Role::up_b, dims.ffn_width, "up");
  }
  first = 0;
  add(on(AdapterTarget::down), Role::down_weight, Role::down_a, Role::down_b, dims.width, "down");
  return sites;
}

UnitSpec adapter_unit(const ModelConfig& config, DecayRule decay, std::int64_t index) {
  const layout::ShardedDims dims = whole_dims(config);
  UnitSpec unit{fmt::format("h.{}.adapter", index), {}};
  for (const AdapterSite& site : adapter_sites(config, dims)) {
    const auto [out, in] = sizes_of(site, dims);
    const std::string name =
        fmt::format("transformer.h.{}.{}.{}", index,
                    site.matrix == Role::up_weight || site.matrix == Role::down_weight ? "mlp" : "attn", site.name);
    const auto add = [&](const char* which, Role role, const Shape& shape, const Init& init) {
      const bool decays = decay == DecayRule::all || shape.rank() >= 2;
      unit.parameters.push_back({{name + which, shape, decays, static_cast<int>(role), shard_rule(config, role)}, init});
    };
    const Init start{Init::Kind::uniform, 1.0F / std::sqrt(static_cast<float>(in))};
    add(".lora_A.weight", site.a, Shape{config.adapter.rank, in}, start);
    add(".lora_B.weight", site.b, Shape{out, config.adapter.rank}, Init{});
  }
  return unit;
}

const layout::ParameterInfo& parameter_of(const UnitSpec& unit, Role role) {
  const auto found =
      std::ranges::find(unit.parameters, static_cast<int>(role), [](const ParameterSpec& spec) { return spec.info.role; });
  ensure(found != unit.parameters.end(), "the unit has the parameter");
  return found->info;
}

std::string words_of(AdapterTargets targets) {
  if (targets == all_targets) return "all";
  std::string words;
  for (std::size_t i = 0; i < target_names.size(); ++i) {
    if ((targets >> i & 1U) == 0) continue;
    if (!words.empty()) words += ',';
    words += target_names[i];
  }
  return words;
}

std::optional<AdapterTargets> adapter_targets(std::string_view words) {
  AdapterTargets targets = 0;
  while (true) {
    const std::string_view word = trimmed(words.substr(0, words.find(',')));
    const auto* const found = std::ranges::find(target_names, word);
    if (word == "all") {
      targets |= all_targets;
    } else if (word == "attention") {
      targets |= attention;
    } else if (word == "mlp") {
      targets |= mlp;
    } else if (found != target_names.end()) {
      targets |= static_cast<AdapterTargets>(1U << static_cast<unsigned>(found - target_names.begin()));
    } else {
      return std::nullopt;
    }
    if (words.find(',') == words.npos) return targets;
    words.remove_prefix(words.find(',') + 1);
  }
}

std::vector<Problem> check_adapter(const ModelConfig& config) {
  const Adapter& adapter = config.adapter;
  std::vector<Problem> problems;
  if (adapter.rank < 0) {
    problems.push_back({fmt::format("adapter.rank = {}: must not be negative", adapter.rank), "0 trains the model itself"});
  }
  if (!adapter.used()) return problems;
  if (adapter.rank > config.width) {
    problems.push_back(
        {fmt::format("adapter.rank = {}: above model.n_embd = {}, so it is no low rank", adapter.rank, config.width),
         "choose a smaller adapter.rank; 8 to 64 are usual"});
  }
  if (!(adapter.alpha > 0)) {
    problems.push_back(
        {fmt::format("adapter.alpha = {}: must be above 0", adapter.alpha), "the usual one is adapter.rank or twice as much"});
  }
  if (has_one_qkv(config) && some_of(adapter.targets, qkv)) {
    problems.push_back({fmt::format("adapter.targets = {}: this model's q, k and v are one matrix", words_of(adapter.targets)),
                        "take all of q,k,v or none of them"});
  }
  if (config.gated && is_phi3(config) && some_of(adapter.targets, gate_up)) {
    problems.push_back({fmt::format("adapter.targets = {}: this model's gate and up are one matrix", words_of(adapter.targets)),
                        "take both of gate,up or neither"});
  }
  const auto ends = [&](std::string_view what, const char* remedy) {
    problems.push_back({fmt::format("adapter.whole = {}: {}", word_of(adapter.whole), what), remedy});
  };
  if (config.tied && adapter.trains_embeddings() != adapter.trains_head())
    ends("this model's embedding and head are one matrix", "use adapter.whole=both or adapter.whole=none");
  if (!config.tied && adapter.trains_embeddings() && config.position == PositionKind::learned)
    ends("this model's token table lies together with its learned positions", "use adapter.whole=head or adapter.whole=none");
  if (whole_dims(config).adapters == 0) {
    problems.push_back({fmt::format("adapter.targets = {}: this model has no such matrix", words_of(adapter.targets)),
                        "use adapter.targets=all"});
  }
  return problems;
}

}  // namespace lockstep::arch
