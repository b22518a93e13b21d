// Which matrices have adapters, and what these are called.

#include "arch/adapter.h"

#include <gtest/gtest.h>

#include <set>

#include "arch/config_json.h"
#include "arch/huggingface/adapter.h"
#include "support/tiny_model.h"

namespace lockstep::arch {
namespace {

ModelConfig adapted(ModelConfig config, std::string_view targets = "all") {
  config.adapter = {.rank = 4, .alpha = 8, .targets = adapter_targets(targets).value()};
  return config;
}

std::vector<std::string> names_of(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const AdapterSite& site : adapter_sites(config, whole_dims(config))) names.emplace_back(site.name);
  return names;
}

using Names = std::vector<std::string>;

/// The first that is wrong with a model; empty: nothing.
std::string message(const ModelConfig& config) {
  const std::vector<Problem> problems = check(config);
  return problems.empty() ? std::string() : problems.front().message;
}

TEST(Adapter, SitesAreTheMatricesThatAreAskedFor) {
  EXPECT_EQ(names_of(adapted(support::tiny_llama())), (Names{"q", "k", "v", "o", "gate", "up", "down"}));
  EXPECT_EQ(names_of(adapted(support::tiny_llama(), "v,q,down")), (Names{"q", "v", "down"}));
  EXPECT_EQ(names_of(adapted(support::tiny_llama(), "mlp")), (Names{"gate", "up", "down"}));
  EXPECT_EQ(names_of(adapted(support::tiny_model())), (Names{"qkv", "o", "up", "down"}));
  EXPECT_EQ(names_of(support::tiny_model()), Names{});
}

TEST(Adapter, TargetsArePrintedAsTheyAreRead) {
  for (const char* words : {"all", "q,k,v,o", "gate,up,down", "q,v", "down"}) EXPECT_EQ(words_of(*adapter_targets(words)), words);
  EXPECT_EQ(words_of(*adapter_targets("attention, mlp")), "all");
  for (const char* words : {"", "q,", "c_attn", "Q"}) EXPECT_FALSE(adapter_targets(words)) << words;
}

TEST(Adapter, ScaleIsAlphaOverTheRankOrItsRoot) {
  EXPECT_EQ((Adapter{.rank = 16, .alpha = 32}).scale(), 2);
  EXPECT_EQ((Adapter{.rank = 16, .alpha = 32, .rank_stabilised = true}).scale(), 8);
}

TEST(Adapter, AConfigurationIsReadAsItWasWritten) {
  ModelConfig config = adapted(support::tiny_llama(), "q,v");
  config.adapter.alpha = 12.5;
  config.adapter.rank_stabilised = true;
  EXPECT_EQ(model_from_json(to_json(config), "a test"), config);
  EXPECT_EQ(to_json(support::tiny_llama()).find("adapter"), nullptr);
}

TEST(Adapter, WhatAModelCannotHaveIsRefused) {
  EXPECT_EQ(message(adapted(support::tiny_model(), "q")), "adapter.targets = q: this model's q, k and v are one matrix");
  EXPECT_EQ(message(adapted(support::tiny_model(), "gate")), "adapter.targets = gate: this model has no such matrix");
  ModelConfig wide = adapted(support::tiny_model());
  wide.adapter.rank = 31;
  EXPECT_EQ(message(wide), "adapter.rank = 31: above model.n_embd = 30, so it is no low rank");
  ModelConfig phi3 = adapted(support::tiny_llama(), "up,down");
  EXPECT_EQ(message(phi3), "");
  phi3.family = "phi3";
  EXPECT_EQ(message(phi3), "adapter.targets = up,down: this model's gate and up are one matrix");
}

TEST(Adapter, OnlyAdaptersAreTrained) {
  const ModelConfig config = adapted(support::tiny_llama(), "q");
  const ParameterCounts counts = count_parameters(config);
  EXPECT_EQ(counts.trained, 2 * 4 * (30 + 60));
  EXPECT_EQ(counts.total - counts.trained, count_parameters(support::tiny_llama()).total);
}

// As PEFT names them: LoraConfig's adapter_model.safetensors.
TEST(Adapter, PublishedNamesAreThoseOfTheModulesBeside) {
  using huggingface::Family;
  const auto published = [](const ModelConfig& config, Family family) {
    std::vector<std::string> names;
    for (const auto& tensor : huggingface::adapter_tensors(config, family)) names.push_back(tensor.published);
    return names;
  };
  EXPECT_EQ(published(adapted(support::tiny_llama(), "v"), Family::llama).front(),
            "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight");
  EXPECT_EQ(published(adapted(support::tiny_model()), Family::gpt2).back(),
            "base_model.model.transformer.h.1.mlp.c_proj.lora_B.weight");
  EXPECT_EQ(huggingface::adapter_config(adapted(support::tiny_model()), Family::gpt2, "gpt2").at("target_modules").dump(),
            R"(["attn.c_attn","attn.c_proj","mlp.c_fc","mlp.c_proj"])");
}

TEST(Adapter, EndsAreTrainedWholeAndTheFinalNormStays) {
  ModelConfig config = adapted(support::tiny_llama(), "q");
  const std::int64_t pairs = count_parameters(config).trained, table = config.vocabulary * config.width;
  const auto trained = [&](WholeEnds whole) {
    config.adapter.whole = whole;
    EXPECT_EQ(message(config), "");
    std::set<std::string> names;
    for (const UnitSpec& unit : unit_table(config)) {
      if (!unit.trained || unit.name.ends_with("adapter")) continue;
      for (const ParameterSpec& parameter : unit.parameters) names.insert(parameter.info.name);
    }
    EXPECT_EQ(count_parameters(config).trained, pairs + table * std::ssize(names));
    return names;
  };
  const std::string tokens = "transformer.wte.weight", head = "lm_head.weight";
  EXPECT_EQ(trained(WholeEnds::none), (std::set<std::string>{}));
  EXPECT_EQ(trained(WholeEnds::embeddings), std::set{tokens});
  EXPECT_EQ(trained(WholeEnds::head), std::set{head});
  EXPECT_EQ(trained(WholeEnds::both), (std::set{tokens, head}));
  config.tied = true;
  EXPECT_EQ(trained(WholeEnds::both), std::set{tokens});
  config.adapter.whole = WholeEnds::head;
  EXPECT_EQ(message(config), "adapter.whole = head: this model's embedding and head are one matrix");
  config = adapted(support::tiny_model());
  config.tied = false;
  config.adapter.whole = WholeEnds::both;
  EXPECT_EQ(message(config), "adapter.whole = both: this model's token table lies together with its learned positions");
}

// As PEFT 0.21 writes them; with ensure_weight_tying it adds a module's whole path.
TEST(Adapter, ModulesToSaveAreTheEnds) {
  const auto read = [](const char* modules, bool tied, const char* more = "") {
    const std::string json =
        std::string(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "modules_to_save": )") + modules + more + "}";
    try {
      return std::string(
          word_of(huggingface::adapter_from_config(Json::parse(json), huggingface::Family::llama, tied, "x.json").whole));
    } catch (const UserError& error) {
      return error.problems().front().message;
    }
  };
  EXPECT_EQ(read("null", false), "none");
  EXPECT_EQ(read(R"(["lm_head"])", false), "head");
  EXPECT_EQ(read(R"(["model.embed_tokens"])", false), "embeddings");
  EXPECT_EQ(read(R"(["embed_tokens", "lm_head"])", true), "both");
  EXPECT_EQ(read(R"(["embed_tokens", "model.embed_tokens"])", true, R"(, "ensure_weight_tying": true)"), "both");
  EXPECT_EQ(read(R"(["embed_tokens"])", true),
            R"(x.json: "modules_to_save" has one of embed_tokens and lm_head, which are one matrix in this model)");
  EXPECT_EQ(read(R"(["norm"])", false),
            R"(x.json: "modules_to_save" has "norm": embed_tokens and lm_head alone are trained whole here)");
  EXPECT_EQ(read(R"("lm_head")", false), R"(x.json: "modules_to_save" is "lm_head", which adapters do not have here)");
}

TEST(Adapter, OptionsThatChangeTheArithmeticAreRefused) {
  const auto told = [](const char* json) {
    try {
      huggingface::adapter_from_config(Json::parse(json), huggingface::Family::llama, false, "x.json");
    } catch (const UserError& error) {
      return error.problems().front().message;
    }
    return std::string();
  };
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "rank_pattern": {}})"), "");
  EXPECT_EQ(told(R"({"peft_type": "IA3", "r": 4, "lora_alpha": 8})"), R"(x.json: "peft_type" is "IA3": LORA is read alone)");
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 0, "lora_alpha": 8})"),
            R"(x.json: "r" is 0, but has to be a whole number above 0)");
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4.5, "lora_alpha": 8})"),
            R"(x.json: "r" is 4.5, but has to be a whole number above 0)");
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": null})"), "");
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": 1})"),
            R"(x.json: "use_rslora" is 1, but has to be true or false)");
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_dora": true})"),
            R"(x.json: "use_dora" is true, which adapters do not have here)");
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "all"})"),
            R"(x.json: "bias" is "all": biases are not trained beside adapters)");
  // PEFT 0.21 makes these starts anew when it loads an adapter, and takes them off the model's weights.
  for (const char* start : {"pissa", "pissa_niter_16", "corda", "olora", "mica", "loftq", "lora_ga"}) {
    const std::string json =
        R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "init_lora_weights": ")" + std::string(start) + "\"}";
    EXPECT_EQ(told(json.c_str()),
              R"(x.json: "init_lora_weights" is ")" + std::string(start) + R"(", which changes the model's own weights)");
  }
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "init_lora_weights": "gaussian", "eva_config": {"rho": 2}})"),
            "");
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "kasa_config": {"beta": 1}})"),
            R"(x.json: "kasa_config" is {"beta":1}, which adapters do not have here)");
  EXPECT_EQ(told(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "not_known": 1, "nor_this": null})"),
            R"(x.json: "not_known" is 1, which adapters do not have here)");
}

// As PEFT's check_target_module_exists has it (peft/tuners/tuners_utils.py): a list names modules or their ends.
TEST(Adapter, TheConfigurationNamesTheModulesThatHaveWeights) {
  const ModelConfig config = adapted(support::tiny_llama(), "q,v");
  const auto told = [&](const char* json, huggingface::Family family = huggingface::Family::llama) {
    const std::vector<Problem> problems = huggingface::check_targets(
        Json::parse(json), family, huggingface::adapter_tensors(config, huggingface::Family::llama), config.layers, "x.json",
        [](const std::string& pattern, std::string_view path) -> std::optional<bool> {
          if (pattern == "not known") return std::nullopt;
          return path.ends_with(pattern);
        });
    return problems.empty() ? std::string() : problems.front().message;
  };
  for (const char* right : {"{}", R"({"target_modules": ["q_proj", "v_proj", "k_proj"]})",
                            R"({"target_modules": "all-linear", "exclude_modules": null})",
                            R"({"target_modules": "_proj", "exclude_modules": "k_proj"})",
                            R"({"target_modules": "not known", "exclude_modules": "not known"})",
                            R"({"target_modules": ["self_attn.q_proj", "v_proj"], "layers_to_transform": [0, 1]})"})
    EXPECT_EQ(told(right), "") << right;
  EXPECT_EQ(told(R"({"target_modules": ["q_proj"]})"),
            R"(x.json: "target_modules" is ["q_proj"], and the weights are also of self_attn.v_proj)");
  EXPECT_EQ(told(R"({"target_modules": null})", huggingface::Family::gpt2),
            R"(x.json: "target_modules" is null, for which PEFT takes ["c_attn"], and the weights are also of self_attn.q_proj)");
  EXPECT_EQ(told("{}", huggingface::Family::phi3),
            R"(x.json: "target_modules" is null, and PEFT has no modules that it takes for a phi3 then)");
  EXPECT_EQ(told(R"({"exclude_modules": ["q_proj"]})"),
            R"(x.json: "exclude_modules" has self_attn.q_proj, of which there are weights)");
  EXPECT_EQ(told(R"({"target_modules": "q_proj"})"),
            R"(x.json: "target_modules" is "q_proj", and the weights are also of self_attn.v_proj)");
  EXPECT_EQ(told(R"({"exclude_modules": "v_proj"})"),
            R"(x.json: "exclude_modules" has self_attn.v_proj, of which there are weights)");
  EXPECT_EQ(told(R"({"layers_to_transform": [1]})"),
            R"(x.json: "layers_to_transform" is [1]: here every block has the same adapters)");
  EXPECT_EQ(told(R"({"layers_to_transform": 0})"),
            R"(x.json: "layers_to_transform" is 0: here every block has the same adapters)");
}

}  // namespace
}  // namespace lockstep::arch
