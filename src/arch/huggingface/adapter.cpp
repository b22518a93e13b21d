#include "arch/huggingface/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "arch/adapter.h"

namespace lockstep::arch::huggingface {
namespace {

constexpr std::string_view prefix = "base_model.model.", weight = ".weight";

/// The module of the published model that has the rows of a site: "model.layers.3.self_attn.q_proj".
std::string module_of(const TensorTable& table, const std::string& matrix, const layout::Range& rows) {
  const auto parameter = std::ranges::find(table.parameters, matrix, &Parameter::name);
  ensure(parameter != table.parameters.end(), "adapters are beside matrices of the model");
  const auto part =
      std::ranges::find_if(parameter->parts, [&](const Part& p) { return p.first_row == rows.first && p.rows == rows.count; });
  ensure(part != parameter->parts.end(), "an adapter is beside all of a published matrix");
  ensure(part->name.ends_with(weight), "matrices are modules' weights");
  return part->name.substr(0, part->name.size() - weight.size());
}

constexpr const char* merge_it = "merge it into its model with PEFT (merge_and_unload), or train one without it";

/// What PEFT calls the module of a published weight in modules_to_save: "lm_head" of "lm_head.weight".
std::string last_name(std::string_view published) {
  published.remove_suffix(weight.size());
  return std::string(published.substr(published.rfind('.') + 1));
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
  problems.push_back({fmt::format("{}: \"{}\" is {}, which adapters do not have here", what, key, text), merge_it});
}

/// What PEFT 0.21 writes beside the numbers that are read (peft/tuners/lora/config.py), and that changes nothing of what a
/// trained adapter does.
constexpr std::array<std::string_view, 27> harmless = {"task_type",
                                                       "peft_type",
                                                       "auto_mapping",
                                                       "peft_version",
                                                       "base_model_name_or_path",
                                                       "revision",
                                                       "inference_mode",
                                                       "r",
                                                       "target_modules",
                                                       "exclude_modules",
                                                       "lora_alpha",
                                                       "lora_dropout",
                                                       "fan_in_fan_out",
                                                       "bias",
                                                       "use_rslora",
                                                       "modules_to_save",
                                                       "megatron_core",
                                                       "init_lora_weights",
                                                       "layers_to_transform",
                                                       "layers_pattern",
                                                       "loftq_config",
                                                       "eva_config",
                                                       "corda_config",
                                                       "lora_ga_config",
                                                       "qalora_group_size",
                                                       "runtime_config",
                                                       "ensure_weight_tying"};

/// Ways to begin that PEFT makes anew when it loads an adapter, and that take something off the model's own weights
/// (peft/tuners/lora/layer.py: update_layer).
void refuse_start(const Json& json, std::string_view what, std::vector<Problem>& problems) {
  const Json* const start = json.find("init_lora_weights");
  if (start == nullptr || !start->is_string()) return;
  for (const std::string_view plain : {"gaussian", "eva", "orthogonal"}) {
    if (start->string() == plain) return;
  }
  problems.push_back({fmt::format("{}: \"init_lora_weights\" is {}, which changes the model's own weights", what, start->dump()),
                      "save the adapter as an ordinary one (path_initial_model_for_weight_conversion), or merge it with PEFT"});
}

/// What PEFT 0.21 takes where "target_modules" is null (peft/utils/constants.py); null where it refuses the family.
Json usual_targets(Family family) {
  constexpr std::array without = {Family::phi3, Family::smollm3, Family::olmo2, Family::granite};
  if (family == Family::gpt2) return Json::Array{"c_attn"};
  if (std::ranges::find(without, family) != without.end()) return {};
  return Json::Array{"q_proj", "v_proj"};
}

/// Whether "target_modules" or "exclude_modules" names a module, in a list or by a regular expression; nothing: it is not told.
/// "all-linear" names all that may have adapters here.
std::optional<bool> is_named(const Json* modules, std::string_view module, const MatchesPath& matches) {
  if (modules == nullptr || modules->is_null()) return std::nullopt;
  if (modules->is_string()) return modules->string() == "all-linear" ? true : matches(modules->string(), module);
  if (!modules->is_array()) return std::nullopt;
  return std::ranges::any_of(modules->array(), [&](const Json& target) {
    return target.is_string() && (module == target.string() || module.ends_with("." + target.string()));
  });
}

/// Whether "layers_to_transform" has a block; an empty list has all.
bool has_block(const Json& blocks, std::int64_t block) {
  const auto is = [&](const Json& number) { return number.is_int() && number.integer() == block; };
  return blocks.is_array() ? blocks.array().empty() || std::ranges::any_of(blocks.array(), is) : is(blocks);
}

}  // namespace

std::vector<Problem> check_targets(const Json& json, Family family, std::span<const AdapterTensor> tensors, std::int64_t blocks,
                                   std::string_view what, const MatchesPath& matches) {
  std::vector<Problem> problems;
  const auto complain = [&](std::string message) {
    problems.push_back({fmt::format("{}: {}", what, message), "take the config and the weights of one and the same adapter"});
  };
  const Json *const said = json.find("target_modules"), *const left_out = json.find("exclude_modules"),
                    *const layers = json.find("layers_to_transform");
  const bool usual = said == nullptr || said->is_null();
  const Json targets = usual ? usual_targets(family) : *said;
  if (targets.is_null()) {
    complain(fmt::format("\"target_modules\" is null, and PEFT has no modules that it takes for a {} then", name_of(family)));
    return problems;
  }
  std::set<std::string> told;
  for (const AdapterTensor& tensor : tensors) {
    std::string_view module = tensor.published;
    const std::size_t end = module.find(".lora_");
    if (end == std::string_view::npos) continue;
    module = module.substr(prefix.size(), end - prefix.size());
    const std::string name = within_block(std::string(module));
    if (!is_named(&targets, module, matches).value_or(true) && told.insert(name).second)
      complain(fmt::format("\"target_modules\" is {}{}, and the weights are also of {}",
                           usual ? "null, for which PEFT takes " : "", targets.dump(), name));
    if (is_named(left_out, module, matches).value_or(false) && told.insert(name).second)
      complain(fmt::format("\"exclude_modules\" has {}, of which there are weights", name));
  }
  for (std::int64_t block = 0; layers != nullptr && !layers->is_null() && block < blocks; ++block) {
    if (has_block(*layers, block)) continue;
    problems.push_back(
        {fmt::format("{}: \"layers_to_transform\" is {}: here every block has the same adapters", what, layers->dump()),
         merge_it});
    break;
  }
  return problems;
}

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
        all.push_back({info.name, fmt::format("{}{}.{}{}", prefix, module, which, weight), info.shape});
      }
    }
  }
  return all;
}

std::vector<AdapterTensor> tensors_of_files(const ModelConfig& config, Family family) {
  std::vector<AdapterTensor> all = adapter_tensors(config, family);
  const std::vector<UnitSpec> units = unit_table(config);
  const UnitMap map = unit_map(config);
  const auto add = [&](UnitIndex unit, Role role, std::string_view published) {
    const layout::ParameterInfo& info = parameter_of(units[static_cast<std::size_t>(unit.value)], role);
    all.push_back({info.name, fmt::format("{}{}", prefix, published), info.shape});
  };
  if (config.adapter.trains_embeddings()) add(map.embedding_reads.back(), Role::token_table, token_table_name(family));
  if (config.adapter.trains_head()) add(map.head_reads.back(), map.projection, head_name(family));
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
  Json::Array whole_modules;
  if (adapter.trains_embeddings()) whole_modules.emplace_back(last_name(token_table_name(family)));
  if (adapter.trains_head()) whole_modules.emplace_back(last_name(head_name(family)));
  const bool whole = adapter.alpha == static_cast<double>(static_cast<std::int64_t>(adapter.alpha));
  Json json = Json::Object{{"peft_type", "LORA"},
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
  if (whole_modules.empty()) return json;
  json.set("modules_to_save", std::move(whole_modules));
  json.set("ensure_weight_tying", config.tied);
  return json;
}

namespace {

/// Whether a name in modules_to_save, a path or its end, is the module of a published weight.
bool names_module(const Json& name, std::string_view published) {
  if (!name.is_string()) return false;
  published.remove_suffix(weight.size());
  return published == name.string() || published.ends_with("." + name.string());
}

/// Which ends "modules_to_save" names; complains of other modules.
WholeEnds whole_ends(const Json& json, const Json::Array& modules, Family family, bool tied, std::string_view what,
                     std::vector<Problem>& problems) {
  const std::string_view table = token_table_name(family), head = head_name(family);
  bool embeds = false, projects = false;
  for (const Json& module : modules) {
    embeds = embeds || names_module(module, table);
    projects = projects || names_module(module, head);
    if (names_module(module, table) || names_module(module, head)) continue;
    problems.push_back({fmt::format("{}: \"modules_to_save\" has {}: {} and {} alone are trained whole here", what, module.dump(),
                                    last_name(table), last_name(head)),
                        merge_it});
  }
  const Json* const tying = json.find("ensure_weight_tying");
  if (tied && (embeds || projects) && tying != nullptr && tying->is_bool() && tying->boolean()) return WholeEnds::both;
  if (tied && embeds != projects) {
    problems.push_back({fmt::format("{}: \"modules_to_save\" has one of {} and {}, which are one matrix in this model", what,
                                    last_name(table), last_name(head)),
                        "train both with ensure_weight_tying=True, or neither"});
  }
  if (embeds) return projects ? WholeEnds::both : WholeEnds::embeddings;
  return projects ? WholeEnds::head : WholeEnds::none;
}

}  // namespace

Adapter adapter_from_config(const Json& json, Family family, bool tied, std::string_view what) {
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
  const auto number = [&](const char* key, bool (Json::*fits)() const, const char* rule) {
    const Json* value = json.find(key);
    if (value != nullptr && (value->*fits)() && value->number() > 0 && value->number() < 1e9) return value->number();
    complain(fmt::format("\"{}\" is {}, but has to be a {} above 0", key, value == nullptr ? "missing" : value->dump(), rule),
             "take another copy of the adapter");
    return 1.0;
  };
  adapter.rank = static_cast<std::int64_t>(number("r", &Json::is_int, "whole number"));
  adapter.alpha = number("lora_alpha", &Json::is_number, "number");
  if (const Json* stabilised = json.find("use_rslora"); stabilised != nullptr && !stabilised->is_null()) {
    adapter.rank_stabilised = stabilised->is_bool() && stabilised->boolean();
    if (!stabilised->is_bool())  // PEFT takes whatever Python takes for true
      complain(fmt::format("\"use_rslora\" is {}, but has to be true or false", stabilised->dump()), "write true or false");
  }
  if (const Json* bias = json.find("bias"); bias != nullptr && bias->dump() != "\"none\"")
    complain(fmt::format("\"bias\" is {}: biases are not trained beside adapters", bias->dump()), "train one with bias=\"none\"");
  if (const Json* modules = json.find("modules_to_save"); modules != nullptr && modules->is_array()) {
    adapter.whole = whole_ends(json, modules->array(), family, tied, what, problems);
  } else {
    refuse_option(json, "modules_to_save", what, problems);
  }
  refuse_start(json, what, problems);
  for (const auto& [key, value] : json.object()) {
    if (std::ranges::find(harmless, key) == harmless.end()) refuse_option(json, key, what, problems);
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return adapter;
}

}  // namespace lockstep::arch::huggingface
