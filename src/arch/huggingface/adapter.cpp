#include "arch/huggingface/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "arch/adapter.h"

namespace lockstep::arch::huggingface {
namespace {

/// The module of the published model that has the rows of a site: "model.layers.3.self_attn.q_proj".
std::string module_of(const TensorTable& table, const std::string& matrix, const layout::Range& rows) {
  const auto parameter = std::ranges::find(table.parameters, matrix, &Parameter::name);
  ensure(parameter != table.parameters.end(), "adapters are beside matrices of the model");
  const auto part =
      std::ranges::find_if(parameter->parts, [&](const Part& p) { return p.first_row == rows.first && p.rows == rows.count; });
  ensure(part != parameter->parts.end(), "an adapter is beside all of a published matrix");
  constexpr std::string_view weight = ".weight";
  ensure(part->name.ends_with(weight), "matrices are modules' weights");
  return part->name.substr(0, part->name.size() - weight.size());
}

/// What is behind the block's number: "self_attn.q_proj".
std::string within_block(const std::string& module) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t at = 0;
  while (at < module.size() && !(module[at] == '.' && digit(module[at + 1]))) ++at;
  return module.substr(module.find('.', at + 1) + 1);
}

void refuse_option(const Json& json, std::string_view key, std::string_view what, std::vector<Problem>& problems) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return;
  const std::string text = value->dump();
  for (const char* const none : {"false", "[]", "{}", "null"}) {
    if (text == none) return;
  }
  problems.push_back({fmt::format("{}: \"{}\" is {}, which adapters do not have here", what, key, text),
                      "merge it into its model with PEFT (merge_and_unload), or train one without it"});
}

}  // namespace

std::vector<AdapterTensor> adapter_tensors(const ModelConfig& config, Family family) {
  const TensorTable table = tensor_table(config, family);
  const std::vector<AdapterSite> sites = adapter_sites(config, whole_dims(config));
  const std::vector<UnitSpec> units = unit_table(config);
  const UnitMap map = unit_map(config);
  std::vector<AdapterTensor> all;
  for (std::size_t block = 0; block < map.adapters.size(); ++block) {
    const UnitSpec& own = units[static_cast<std::size_t>(map.blocks[block].value)];
    const UnitSpec& adapters = units[static_cast<std::size_t>(map.adapters[block].value)];
    for (const AdapterSite& site : sites) {
      const std::string module = module_of(table, parameter_of(own, site.matrix).name, site.rows);
      for (const auto& [role, which] : {std::pair(site.a, "lora_A"), {site.b, "lora_B"}}) {
        const layout::ParameterInfo& info = parameter_of(adapters, role);
        all.push_back({info.name, fmt::format("base_model.model.{}.{}.weight", module, which), info.shape});
      }
    }
  }
  return all;
}

Json adapter_config(const ModelConfig& config, Family family, const std::string& base) {
  std::set<std::string> modules;
  for (const AdapterTensor& tensor : adapter_tensors(config, family)) {
    const std::string module = within_block(tensor.published);
    modules.insert(module.substr(0, module.find(".lora_")));
  }
  Json::Array targets;
  for (const std::string& module : modules) targets.emplace_back(module);
  const Adapter& adapter = config.adapter;
  const bool whole = adapter.alpha == static_cast<double>(static_cast<std::int64_t>(adapter.alpha));
  return Json::Object{{"peft_type", "LORA"},
                      {"task_type", "CAUSAL_LM"},
                      {"base_model_name_or_path", base},
                      {"r", adapter.rank},
                      {"lora_alpha", whole ? Json(static_cast<std::int64_t>(adapter.alpha)) : Json(adapter.alpha)},
                      {"use_rslora", adapter.rank_stabilised},
                      {"lora_dropout", 0.0},
                      {"target_modules", std::move(targets)},
                      {"fan_in_fan_out", family == Family::gpt2},
                      {"bias", "none"},
                      {"inference_mode", true}};
}

Adapter adapter_from_config(const Json& json, std::string_view what) {
  std::vector<Problem> problems;
  const auto complain = [&](const std::string& message, const char* remedy) {
    problems.push_back({fmt::format("{}: {}", what, message), remedy});
  };
  const Json* type = json.find("peft_type");
  if (type == nullptr || !type->is_string() || type->string() != "LORA") {
    complain(fmt::format("\"peft_type\" is {}: LORA is read alone", type == nullptr ? "missing" : type->dump()),
             "take an adapter that was trained with LoRA");
  }
  Adapter adapter;
  const auto number = [&](const char* key, auto least) {
    const Json* value = json.find(key);
    if (value != nullptr && value->is_number() && value->number() > 0 && value->number() < 1e9 &&
        value->number() >= static_cast<double>(least))
      return value->number();
    complain(fmt::format("\"{}\" is {}, but has to be a number above 0", key, value == nullptr ? "missing" : value->dump()),
             "take another copy of the adapter");
    return 1.0;
  };
  adapter.rank = static_cast<std::int64_t>(number("r", 1));
  adapter.alpha = number("lora_alpha", 0);
  if (const Json* stabilised = json.find("use_rslora")) adapter.rank_stabilised = stabilised->is_bool() && stabilised->boolean();
  if (const Json* bias = json.find("bias"); bias != nullptr && bias->dump() != "\"none\"")
    complain(fmt::format("\"bias\" is {}: biases are not trained beside adapters", bias->dump()), "train one with bias=\"none\"");
  for (const char* key : {"use_dora", "use_qalora", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern",
                          "layer_replication", "trainable_token_indices", "target_parameters", "alora_invocation_tokens"})
    refuse_option(json, key, what, problems);
  if (!problems.empty()) throw UserError(std::move(problems));
  return adapter;
}

}  // namespace lockstep::arch::huggingface
