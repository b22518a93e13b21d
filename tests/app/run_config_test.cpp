#include "app/settings/run_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "app/settings/checks.h"
#include "app/settings/config_file.h"
#include "app/settings/keys.h"
#include "app/start/resolve.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

RunConfig resolved(const std::vector<std::string>& overrides) { return settings::resolve({{}, overrides}).config; }

std::vector<std::string> messages(const std::vector<Problem>& problems) {
  std::vector<std::string> all;
  for (const Problem& problem : problems) all.push_back(problem.message + " -> " + problem.remedy);
  return all;
}

// The dump in the log of the WordPlay run of 2024-07-17.
constexpr const char* kSeedDump = R"({
    "train": {
        "framework": "pytorch",
        "backend": "DDP",
        "device": null,
        "seed": null,
        "port": null,
        "ds_config_path": null,
        "precision": null,
        "ngpus": null,
        "use_wandb": true,
        "eval_interval": 100,
        "log_interval": 10,
        "eval_iters": 200,
        "eval_only": false,
        "always_save_checkpoint": false,
        "init_from": "scratch",
        "wandb_project": "WordPlay",
        "max_iters": 1000,
        "warmup_iters": 100,
        "dtype": "bf16",
        "compile": false
    },
    "model": {
        "n_layer": 12,
        "n_head": 12,
        "n_embd": 768,
        "batch_size": 64,
        "block_size": 1024,
        "activation": "gelu",
        "dropout": 0.0,
        "bias": false,
        "vocab_size": 65
    },
    "data": {
        "dataset": "shakespeare_char",
        "out_dir": "out-shakespeare-char",
        "root_path": null
    },
    "optimizer": {
        "gas": 1,
        "name": "AdamW",
        "learning_rate": 0.0006,
        "weight_decay": 0.1,
        "beta1": 0.9,
        "beta2": 0.95,
        "grad_clip": 1.0,
        "decay_lr": true,
        "lr_decay_iters": 600000,
        "min_lr": 6e-05
    }
})";

const std::vector<std::string> kSeedCommand = {"train.backend=DDP",    "train.eval_interval=100", "data=shakespeare",
                                               "train.dtype=bf16",     "model.batch_size=64",     "model.block_size=1024",
                                               "train.max_iters=1000", "train.log_interval=10",   "train.compile=false"};

TEST(RunConfig, TheSeedsCommandResolvesToItsDump) {
  const settings::Resolved result = settings::resolve({{}, kSeedCommand});
  EXPECT_EQ(to_json(result.config, 65, true).dump(4), kSeedDump);
  EXPECT_TRUE(result.warnings.empty());
}

TEST(RunConfig, TheFullDumpHasTheSeedsKeysAndMore) {
  const Json full = to_json(resolved(kSeedCommand), 65);
  const Json seed = Json::parse(kSeedDump);
  for (const auto& [group, members] : seed.object()) {
    for (const auto& [name, value] : members.object()) EXPECT_EQ(full.at(group).at(name).dump(), value.dump()) << name;
  }
  EXPECT_EQ(full.at("sample").at("prompt").string(), "What is an LLM?");
  EXPECT_TRUE(full.at("checkpoint").at("interval").is_null());
  EXPECT_TRUE(to_json(RunConfig()).at("model").at("vocab_size").is_null());
}

TEST(RunConfig, DerivedValues) {
  RunConfig config = resolved(kSeedCommand);
  EXPECT_EQ(tokens_per_iteration(config, 4), 262144);
  EXPECT_EQ(tokens_per_iteration(resolved({"optimizer.gas=3"})), 3 * 12 * 1024);
  EXPECT_EQ(seed_of(config), 1337U);
  EXPECT_EQ(seed_of(resolved({"train.seed=7"})), 7U);
  EXPECT_EQ(checkpoint_interval(config), 100);
  EXPECT_EQ(checkpoint_interval(resolved({"checkpoint.interval=5"})), 5);
  EXPECT_EQ(dtype_of(config), DType::bf16);
  EXPECT_EQ(dtype_of(resolved({"train.dtype=bfloat16"})), DType::bf16);
  EXPECT_EQ(dtype_of(resolved({"train.dtype=fp32"})), DType::f32);
  EXPECT_EQ(dtype_of(RunConfig()), DType::f32);
  EXPECT_EQ(config.numerics.isa, ops::Isa::automatic);
  EXPECT_EQ(resolved({"numerics.isa=avx2"}).numerics.isa, ops::Isa::avx2);
  EXPECT_EQ(order_of(config), data::Order::random);
  EXPECT_EQ(order_of(resolved({"data.order=partition"})), data::Order::partition);
  EXPECT_EQ(order_of(resolved({"train.max_epochs=2"})), data::Order::partition);
  EXPECT_EQ(data_folder(config), "data/shakespeare_char");
  EXPECT_EQ(data_folder(resolved({"data.root_path=/x", "data=owt"})), "/x/openwebtext");
  EXPECT_EQ(data_folder(resolved({"data.dir=d"})), "d");
  EXPECT_EQ(run_folder(config, "still-frog-17"), "runs/still-frog-17");
  EXPECT_EQ(run_folder(resolved({"log.name=a"}), "b"), "runs/a");
  EXPECT_EQ(run_folder(resolved({"log.dir=/r", "log.name=a"}), "b"), "/r");
  EXPECT_EQ(config.optimizer.decay, arch::DecayRule::matrices);
}

TEST(RunConfig, TheSeedsModelHasTheSeedsParameters) {
  const arch::ParameterCounts counts = arch::count_parameters(model_config(resolved(kSeedCommand), 65));
  EXPECT_EQ(counts.without_positions, 85003776);
  EXPECT_EQ(counts.decayed_tensors, 50);
  EXPECT_EQ(counts.decayed, 85771008);
  EXPECT_EQ(counts.other_tensors, 25);
  EXPECT_EQ(counts.other, 19200);
}

TEST(RunConfig, RaschkasModelHasItsParameters) {
  const RunConfig config = resolved({"+experiment=rasbt"});
  EXPECT_EQ(arch::count_parameters(model_config(config, 50257)).total, 163009536);
  EXPECT_EQ(arch::count_parameters(model_config(config, 50304)).total, 163081728);
  const arch::ModelConfig model = model_config(config, 50257);
  EXPECT_TRUE(model.bias);
  EXPECT_FALSE(model.qkv_bias);
  EXPECT_FALSE(model.tied);
  EXPECT_EQ(model.activation, arch::ActivationKind::gelu_tanh);
  EXPECT_EQ(model.init, arch::InitKind::pytorch);
  EXPECT_FLOAT_EQ(model.dropout, 0.1F);
  EXPECT_EQ(config.optimizer.decay, arch::DecayRule::all);
  EXPECT_FALSE(config.optimizer.decay_lr);
  EXPECT_EQ(config.optimizer.grad_clip, 0);
  EXPECT_EQ(config.optimizer.beta2, 0.999);
}

TEST(RunConfig, WeightsStartAsModelInitSays) {
  const std::pair<const char*, arch::InitKind> starts[] = {{"gpt2", arch::InitKind::gpt2},
                                                           {"pytorch", arch::InitKind::pytorch},
                                                           {"small", arch::InitKind::small},
                                                           {"smaller", arch::InitKind::smaller}};
  for (const auto& [name, kind] : starts)
    EXPECT_EQ(model_config(resolved({std::string("model.init=") + name}), 65).init, kind) << name;
}

TEST(RunConfig, LlamasHaveTheParametersOfTheirPapers) {
  const auto total = [](const std::string& name) {
    return arch::count_parameters(model_config(resolved({"model=" + name}), 32000)).total;
  };
  EXPECT_EQ(total("llama7B"), 6738415616);
  EXPECT_EQ(total("llama2B"), 2285981696);
  EXPECT_EQ(total("llama3_8B"), 8030261248);
  EXPECT_EQ(total("qwen2_0.5B"), 494032768);
  EXPECT_EQ(total("llama3_1B"), 1235814400);
  EXPECT_EQ(total("llama3_3B"), 3212749824);
  EXPECT_EQ(total("llama3_70B"), 70553706496);
  EXPECT_EQ(total("llama3_405B"), 405853388800);
  EXPECT_EQ(total("mistral_7B"), 7248023552);
  EXPECT_EQ(total("qwen2_7B"), 7615616512);
  EXPECT_EQ(total("qwen3_0.6B"), 596049920);
  EXPECT_EQ(total("qwen3_4B"), 4022468096);
  EXPECT_EQ(total("qwen3_8B"), 8190735360);
  EXPECT_EQ(total("qwen3_32B"), 32762123264);
  EXPECT_EQ(total("gemma3_270M"), 268098176);
  EXPECT_EQ(total("gemma3_1B"), 999885952);
}

TEST(RunConfig, ALlamaTakesEverySetting) {
  const arch::ModelConfig model =
      model_config(resolved({"model.n_head=6", "model.n_kv_head=2", "model.head_dim=10", "model.n_embd=30", "model.ffn_width=40",
                             "model.norm=rmsnorm", "model.norm_eps=1e-6", "model.position=rope", "model.rope_theta=100",
                             "model.rope_scaling=llama3", "model.rope_factor=32", "model.rope_low_freq_factor=2",
                             "model.rope_high_freq_factor=5", "model.rope_original_block_size=64", "model.activation=swiglu",
                             "model.qkv_bias=true"}),
                   65);
  EXPECT_EQ(model.heads, 6);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.head_size, 10);
  EXPECT_EQ(model.ffn_width, 40);
  EXPECT_EQ(model.norm, arch::NormKind::rmsnorm);
  EXPECT_EQ(model.norm_eps, 1e-6F);
  EXPECT_EQ(model.position, arch::PositionKind::rope);
  EXPECT_EQ(model.rope, (arch::Rope{100, arch::RopeScaling::llama3, 32, 2, 5, 64}));
  EXPECT_EQ(model.activation, arch::ActivationKind::silu);
  EXPECT_TRUE(model.gated);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_FALSE(model.bias);
  EXPECT_FALSE(model_config(resolved({"model.activation=silu"}), 65).gated);
  EXPECT_EQ(model_config(resolved({"model.activation=swiglu"}), 65).ffn_width, 2048);
}

TEST(RunConfig, ModelConfigTakesEverySetting) {
  const arch::ModelConfig model =
      model_config(resolved({"model.n_layer=3", "model.n_head=2", "model.n_embd=10", "model.block_size=7", "model.vocab_size=11",
                             "model.activation=relu", "model.bias=true", "model.dropout=0.5"}),
                   65);
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.heads, 2);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.width, 10);
  EXPECT_EQ(model.head_size, 5);
  EXPECT_EQ(model.ffn_width, 40);
  EXPECT_EQ(model.block_size, 7);
  EXPECT_EQ(model.vocabulary, 11);
  EXPECT_EQ(model.activation, arch::ActivationKind::relu);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_EQ(model.dropout, 0.5F);
  EXPECT_EQ(model_config(RunConfig(), 65).vocabulary, 65);
}

TEST(RunConfig, WhatThisVersionCannotRun) {
  EXPECT_TRUE(check_runnable(RunConfig()).empty());
  EXPECT_TRUE(check_runnable(resolved(kSeedCommand)).empty());
  EXPECT_EQ(check_runnable(resolved({"train.backend=zero3", "train.init_from=/no/such/folder"})).size(), 1U);
  RunConfig from_weights;
  from_weights.train.init_from = {InitFrom::Kind::folder, std::filesystem::temp_directory_path().string()};
  EXPECT_TRUE(check_runnable(from_weights).empty());
  for (const char* from : {"resume", "auto"})
    EXPECT_TRUE(check_runnable(resolved({std::string("train.init_from=") + from, "log.name=a"})).empty());
}

TEST(RunConfig, AnInstructionSetThatTheMachineLacks) {
  const std::vector<ops::Isa> here = ops::available_isas();
  for (const ops::Isa isa : {ops::Isa::baseline, ops::Isa::avx2, ops::Isa::avx512, ops::Isa::avx512_bf16}) {
    const bool available = std::find(here.begin(), here.end(), isa) != here.end();
    const RunConfig config = resolved({"numerics.isa=" + std::string(ops::name_of(isa))});
    EXPECT_EQ(check_runnable(config).size(), available ? 0U : 1U) << ops::name_of(isa);
  }
}

TEST(RunConfig, TomlGivesBackTheSameSettings) {
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{}, kSeedCommand,
        std::vector<std::string>{"+experiment=rasbt", "data.dir=a b", "train.seed=null"},
        std::vector<std::string>{"sample.top_k=null", "data.out_dir=null", "model.qkv_bias=false", "train.max_minutes=0.5",
                                 "sample.prompt=\"quoted\"\n\ttext \\ \xc3\xa9", "optimizer.min_lr=1.2345678901234567e-300"}}) {
    const RunConfig config = resolved(overrides);
    RunConfig again;
    EXPECT_EQ(messages(read_config_text("\xEF\xBB\xBF" + to_toml(config), "config.toml", again)), std::vector<std::string>{});
    EXPECT_EQ(again, config) << to_toml(config);
  }
}

TEST(RunConfig, EveryKeyIsKnownOnceAndInAGroup) {
  std::vector<std::string> seen;
  for (const settings::Key& key : settings::keys()) {
    EXPECT_EQ(std::count(seen.begin(), seen.end(), std::string(key.name)), 0) << key.name;
    seen.emplace_back(key.name);
    const auto has_name = [&](const settings::Group& group) { return group.name == key.group(); };
    EXPECT_EQ(std::count_if(settings::groups().begin(), settings::groups().end(), has_name), 1) << key.name;
    RunConfig config;
    EXPECT_FALSE(settings::assign(config, key, key.get(config)).has_value()) << key.name;  // the default is allowed
    EXPECT_EQ(config, RunConfig()) << key.name;
  }
}

TEST(RunConfig, WarmUpsThatMeetTheDecayAreSaid) {
  using Kind = train::LrSchedule::Kind;
  const auto odd = [](Kind kind, std::int64_t warmup, std::int64_t lr_decay_iters = 600000, double wsd_decay = 0.2) {
    RunConfig config;
    config.train.max_iters = 1000;
    config.train.warmup_iters = warmup;
    config.optimizer.schedule = kind;
    config.optimizer.lr_decay_iters = lr_decay_iters;
    config.optimizer.wsd_decay = wsd_decay;
    return odd_rates(config);
  };
  EXPECT_EQ(odd(Kind::wsd, 850),
            "train.warmup_iters = 850 reaches into optimizer.wsd_decay = 0.2 of train.max_iters = 1000: the learning rate falls "
            "in 150 iterations, not in 200");
  EXPECT_EQ(odd(Kind::wsd, 800) + odd(Kind::wsd, 850, 600000, 0), "");
  for (const Kind kind : {Kind::nanogpt, Kind::wordplay}) {
    EXPECT_EQ(odd(kind, 500, 500),
              "train.warmup_iters = 500 is not below optimizer.lr_decay_iters = 500: behind the warm-up the learning rate is "
              "optimizer.min_lr = 6e-05");
    EXPECT_EQ(odd(kind, 500, 501), "");
  }
  EXPECT_EQ(odd(Kind::cosine, 500, 500) + odd(Kind::linear, 500, 500), "");
}

}  // namespace
}  // namespace lockstep::app
