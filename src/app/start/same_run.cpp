#include "app/start/same_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <set>
#include <string_view>

#include "app/settings/idle.h"
#include "app/settings/keys.h"
#include "arch/config_json.h"

namespace lockstep::app {
namespace {

using settings::Key;
using settings::OnResume;

// Settings in one form, so that two ways to say the same are equal. Null settings get what follows from others, and types one of
// their two names. What another setting switches off counts as not set.
RunConfig spelt_out(RunConfig config, std::int64_t vocabulary) {
  const arch::ModelConfig model = model_config(config, vocabulary);
  config.train.seed = static_cast<std::int64_t>(seed_of(config));
  config.train.dtype.brief = false;
  config.data.order = order_of(config);
  if (config.data.order == data::Order::random) config.data.epoch_end = EpochEnd::drop;
  config.model.vocab_size = model.vocabulary;
  config.model.n_kv_head = model.kv_heads;
  config.model.head_dim = model.head_size;
  config.model.ffn_width = model.ffn_width;
  config.model.qkv_bias = model.qkv_bias;
  config.model.rope_high_freq_factor = model.rope.high_freq_factor;
  config.model.rope_attention_factor = model.rope.attention_factor;
  RunConfig::Parallel& parallel = config.parallel;
  constexpr train::ServerMode usual = train::ServerMode::gradients;  // which is what DDP does
  parallel.ps = config.train.backend == BackendKind::ps ? parallel.ps.value_or(usual) : usual;
  if (parallel.ps != train::ServerMode::async) parallel.staleness.reset();
  return config;
}

// The checkpoint's settings; those that it does not know, and what it does not say at all, as they are now.
RunIdentity stored_identity(const RunIdentity& now, const checkpoint::Manifest& manifest, const std::string& folder,
                            std::vector<std::string>& unknown) {
  RunIdentity was = now;
  was.global_batch = manifest.global_batch;
  was.vocabulary = arch::model_from_json(manifest.model, folder).vocabulary;
  const auto note = [&](const char* name) { return manifest.run.is_object() ? manifest.run.find(name) : nullptr; };
  if (const Json* config = note("config")) {
    for (const Key& key : settings::keys()) {
      const Json* group = config->is_object() ? config->find(key.group()) : nullptr;
      const Json* value = group != nullptr && group->is_object() ? group->find(key.option()) : nullptr;
      if (value != nullptr) settings::assign(was.config, key, *value);
    }
  } else {
    unknown.emplace_back("the settings");
  }
  if (const Json* data = note("data"); data != nullptr && data->is_object()) {
    was.data = *data;
  } else {
    unknown.emplace_back("which text it was trained on");
  }
  if (const Json* isa = note("isa"); isa != nullptr && isa->is_string()) was.isa = isa->string();
  if (const Json* program = note("program"); program != nullptr && program->is_string()) was.program = program->string();
  const std::optional<ops::Bf16Order> order = stored_bf16_order(manifest);
  if (order && now.config.numerics.bf16 != ops::Bf16Order::automatic) was.config.numerics.bf16 = *order;
  return was;
}

/// As the checkpoint says it; null: it does not.
const Json* numerics_setting(const checkpoint::Manifest& manifest, const char* name) {
  const Json* found = &manifest.run;
  for (const char* member : {"config", "numerics", name}) {
    if (found == nullptr || !found->is_object()) return nullptr;
    found = found->find(member);
  }
  return found;
}

void compare_data(const Json& was, const Json& is, const RunConfig& old, const std::string& folder, Comparison& result) {
  std::set<std::string> names;
  for (const Json* side : {&was, &is}) {
    for (const auto& [name, hash] : side->object()) names.insert(name);
  }
  const auto hash_of = [](const Json& side, const std::string& name) {
    const Json* hash = side.find(name);
    return hash != nullptr ? settings::shown(*hash).substr(0, 12) : "none";
  };
  for (const std::string& name : names) {
    const Json *left = was.find(name), *right = is.find(name);
    if (left != nullptr && right != nullptr && left->dump() == right->dump()) continue;
    result.problems.push_back(
        {fmt::format("{} is another text (SHA-256 {}...) than the one that the run was trained on ({}...)", name,
                     hash_of(is, name), hash_of(was, name)),
         fmt::format("resume with the text of the run (data.dir={}), or start a new run from its weights with train.init_from={}",
                     data_folder(old), folder)});
  }
}

// Whether the learning rates depend on the number of steps.
bool ends_with_run(const RunConfig& config) {
  return config.optimizer.decay_lr && train::ends_with_run(config.optimizer.schedule);
}

// Instruction sets with a fused multiply-add have the same sums.
bool is_fused(const RunIdentity& run) { return run.isa != "baseline"; }

// What is learned depends on these, and no single setting says so.
void compare_derived(const RunIdentity& was, const RunIdentity& is, std::int64_t step, Comparison& result) {
  if (was.global_batch != is.global_batch) result.changes.push_back({step, "global batch", was.global_batch, is.global_batch});
  if (ends_with_run(is.config)) {
    for (const char* name : {"train.max_iters", "train.max_epochs"}) {
      const Key& key = *settings::find_key(name);
      Json before = key.get(was.config), after = key.get(is.config);
      if (before.dump() != after.dump()) result.changes.push_back({step, name, std::move(before), std::move(after)});
    }
  }
  if (is_fused(was) != is_fused(is) && dtype_of(was.config) == dtype_of(is.config))
    result.changes.push_back({step, "numerics.isa", was.isa, is.isa});
}

/// `now`: the settings of the resume.
Problem another_run(const Key& key, const Json& was, const Json& is, const RunConfig& now, const std::string& folder) {
  const bool by_epochs = key.name == "data.order" && now.train.max_epochs;  // which have no other order than this one
  return {fmt::format("{} = {}: the run of {} has {}", key.name, settings::shown(is), folder, settings::shown(was)),
          fmt::format("resume with {}{}={}; with another value it is another run, which needs a log.dir or log.name of its own",
                      by_epochs ? "train.max_epochs=null " : "", key.name, settings::shown(was))};
}

std::string names_of(OnResume mark) {
  std::vector<std::string> names;
  for (const Key& key : settings::keys()) {
    if (key.on_resume == mark) names.push_back(fmt::format("`{}`", key.name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

bool stored_canonical(const checkpoint::Manifest& manifest) {
  const Json* value = numerics_setting(manifest, "canonical");
  return value != nullptr && value->is_bool() && value->boolean();
}

std::optional<ops::Bf16Order> stored_bf16_order(const checkpoint::Manifest& manifest) {
  if (!manifest.run.is_object()) return {};
  const Json* word = numerics_setting(manifest, "bf16");
  if (word != nullptr && word->is_string() && word->string() != "auto") return ops::bf16_order_from_name(word->string());
  const Json* isa = manifest.run.find("isa");
  if (isa == nullptr || !isa->is_string()) return {};
  return isa->string() == "avx512_bf16" ? ops::Bf16Order::pairs : ops::Bf16Order::widened;
}

Comparison compare_runs(const RunIdentity& now, const checkpoint::Manifest& manifest, const std::string& folder) {
  Comparison result;
  const RunIdentity before = stored_identity(now, manifest, folder, result.unknown);
  const RunConfig was = spelt_out(before.config, before.vocabulary), is = spelt_out(now.config, now.vocabulary);
  const auto idle = [](const Key& key, const RunConfig& config) { return !settings::idle_reason(key, {config}).empty(); };
  std::vector<Problem> following;  // from other settings, which are named in their stead where they differ
  for (const Key& key : settings::keys()) {
    Json left = key.get(was), right = key.get(is);
    if (key.on_resume == OnResume::may_change || left.dump() == right.dump()) continue;
    if (key.on_resume == OnResume::must_equal) {
      if (idle(key, before.config) && idle(key, now.config)) continue;
      const bool set_alike = key.get(before.config).dump() == key.get(now.config).dump();
      (set_alike ? following : result.problems).push_back(another_run(key, left, right, now.config, folder));
    } else {
      result.changes.push_back({manifest.step, std::string(key.name), std::move(left), std::move(right)});
    }
  }
  if (result.problems.empty()) result.problems = std::move(following);
  if (before.program != now.program) result.other_program = before.program;
  compare_derived(before, now, manifest.step, result);
  compare_data(before.data, now.data, before.config, folder, result);
  return result;
}

Json identity_json(const RunIdentity& now, const std::vector<Change>& changes, const checkpoint::Manifest* before) {
  Json json;
  json.set("data", now.data);
  json.set("isa", now.isa);
  json.set("program", now.program);
  Json::Array all;
  const Json* older = before != nullptr && before->run.is_object() ? before->run.find("changes") : nullptr;
  if (older != nullptr && older->is_array()) all = older->array();
  for (const Change& change : changes) {
    all.emplace_back(Json::Object{{"step", change.step}, {"setting", change.setting}, {"was", change.was}, {"is", change.is}});
  }
  json.set("changes", std::move(all));
  return json;
}

std::string resume_table() {
  return fmt::format(
      "| on a resume | settings |\n|---|---|\n"
      "| must be equal | {} |\n| changes what is learned: warned of, recorded | {} |\n| may change | {} |\n",
      names_of(OnResume::must_equal), names_of(OnResume::changes_learning), names_of(OnResume::may_change));
}

}  // namespace lockstep::app
