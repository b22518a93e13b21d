#include "app/settings/foreign/deepspeed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "app/settings/foreign/deepspeed_options.h"
#include "app/settings/foreign/yaml.h"
#include "app/settings/keys.h"
#include "app/start/resolve.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::settings {
namespace {

// As Hugging Face's trainer takes it: what the trainer knows is left to it.
constexpr const char* kZero3 = R"({
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_min_lr": "auto", "warmup_max_lr": "auto",
                                                    "warmup_num_steps": "auto"}},
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "offload_param": {"device": "cpu", "pin_memory": true},
    "overlap_comm": true,
    "contiguous_gradients": true,
    "sub_group_size": 1e9,
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_max_live_parameters": 1e9,
    "stage3_max_reuse_distance": 1e9,
    "stage3_gather_16bit_weights_on_model_save": true
  },
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "steps_per_print": 2000,
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "wall_clock_breakdown": false
})";

// As DeepSpeed's documentation writes it: with numbers.
constexpr const char* kZero2 = R"({
  "train_batch_size": 32,
  "train_micro_batch_size_per_gpu": 4,
  "steps_per_print": 10,
  "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.8, 0.99], "eps": 1e-7, "weight_decay": 3e-7}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.002, "warmup_num_steps": 50,
                                               "warmup_type": "linear"}},
  "gradient_clipping": 0.5,
  "bf16": {"enabled": true},
  "fp16": {"enabled": false, "loss_scale": 0},
  "zero_optimization": {"stage": 2, "allgather_partitions": true, "reduce_scatter": true, "allgather_bucket_size": 5e8,
                        "reduce_bucket_size": 5e6, "overlap_comm": false, "contiguous_gradients": true},
  "tensorboard": {"enabled": true, "output_path": "logs/", "job_name": "first"}
})";

class DeepSpeedTest : public ::testing::Test {
 protected:
  Resolved resolved(const std::string& text, std::vector<std::string> overrides = {}, std::int64_t ranks = 1) {
    const std::string path = folder_.path() / "ds.json";
    std::ofstream(path) << text;
    overrides.push_back("train.ds_config_path=" + path);
    return resolve({.files = {}, .overrides = overrides, .ranks = ranks});
  }
  // Messages and remedies of what is wrong, a line each.
  std::string refused(const std::string& text, std::vector<std::string> overrides = {}, std::int64_t ranks = 1) {
    try {
      resolved(text, std::move(overrides), ranks);
    } catch (const UserError& error) {
      std::string lines;
      for (const Problem& problem : error.problems()) lines += problem.message + " -> " + problem.remedy + "\n";
      return lines;
    }
    return "";
  }

  TempFolder folder_;
};

bool mentions(const std::vector<std::string>& lines, const std::string& words) {
  for (const std::string& line : lines) {
    if (line.find(words) != std::string::npos) return true;
  }
  return false;
}

TEST_F(DeepSpeedTest, NumbersBecomeOurSettings) {
  const Resolved found = resolved(kZero2, {}, 2);
  const app::RunConfig& config = found.config;
  EXPECT_EQ(config.train.backend, app::BackendKind::deepspeed);
  EXPECT_EQ(config.memory.zero, 2);
  EXPECT_EQ(app::dtype_of(config), DType::bf16);
  EXPECT_EQ(config.model.batch_size, 4);
  EXPECT_EQ(config.optimizer.gas, 4) << "32 samples of 2 ranks with 4 each";
  EXPECT_EQ(config.train.log_interval, 10);
  EXPECT_EQ(config.optimizer.name, "AdamW");
  EXPECT_EQ(config.optimizer.learning_rate, 0.002) << "the schedule's stands above the method's";
  EXPECT_EQ(config.optimizer.min_lr, 0.002) << "WarmupLR stays where it has risen to";
  EXPECT_EQ(config.optimizer.beta1, 0.8);
  EXPECT_EQ(config.optimizer.beta2, 0.99);
  EXPECT_EQ(config.optimizer.eps, 1e-7);
  EXPECT_EQ(config.optimizer.weight_decay, 3e-7);
  EXPECT_EQ(config.optimizer.grad_clip, 0.5);
  EXPECT_EQ(config.train.warmup_iters, 50);
  EXPECT_EQ(config.parallel.bucket_bytes, 20'000'000) << "DeepSpeed counts elements";
  EXPECT_FALSE(config.parallel.overlap);
  EXPECT_TRUE(config.log.tensorboard);
  EXPECT_TRUE(mentions(found.notes, "contiguous_gradients"));
}

TEST_F(DeepSpeedTest, AutoTakesWhatTheSettingsSay) {
  const Resolved found = resolved(kZero3, {"optimizer.learning_rate=3e-4", "optimizer.gas=2", "train.warmup_iters=7"}, 4);
  const app::RunConfig& config = found.config;
  EXPECT_EQ(config.memory.zero, 3);
  EXPECT_EQ(app::dtype_of(config), DType::f32) << "bf16 is left to train.dtype";
  EXPECT_EQ(config.optimizer.gas, 2);
  EXPECT_EQ(config.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(config.optimizer.min_lr, 0) << "WarmupDecayLR ends at 0";
  EXPECT_EQ(config.optimizer.schedule, train::LrSchedule::Kind::linear);
  EXPECT_EQ(config.train.warmup_iters, 7);
  EXPECT_TRUE(mentions(found.warnings, "straight line"));
}

TEST_F(DeepSpeedTest, WhatTheFileLeavesOutIsAsInDeepSpeed) {
  const Resolved sgd = resolved(R"({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "SGD", "params": {"lr": 0.01}}})");
  EXPECT_EQ(sgd.config.optimizer.momentum, 0);
  EXPECT_EQ(sgd.config.optimizer.weight_decay, 0);
  EXPECT_EQ(sgd.config.optimizer.grad_clip, 1) << "GRADIENT_CLIPPING_DEFAULT of DeepSpeed 0.19";
  EXPECT_EQ(sgd.config.train.warmup_iters, app::RunConfig().train.warmup_iters);
  EXPECT_TRUE(mentions(sgd.notes,
                       "what the file leaves out is as in DeepSpeed: optimizer.weight_decay = 0.0 "
                       "(optimizer.params.weight_decay), optimizer.momentum = 0.0 (optimizer.params.momentum)"));
  EXPECT_TRUE(mentions(sgd.warnings, "no scheduler, so the learning rate follows train.warmup_iters"));
  EXPECT_NE(refused(R"({"train_batch_size": 8589934594, "train_micro_batch_size_per_gpu": 2})")
                .find("train_batch_size = 8589934594 makes optimizer.gas = 4294967297: must be an integer of at least 1"),
            std::string::npos);
  EXPECT_EQ(resolved(R"({"optimizer": {"type": "adamw", "params": {"lr": 0.5}}})").config.optimizer.learning_rate, 0.5);
  const Resolved adam = resolved(R"({"optimizer": {"type": "AdamW"}, "scheduler": {"type": "WarmupLR"}})");
  EXPECT_EQ(adam.config.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(adam.config.optimizer.min_lr, 1e-3);
  EXPECT_EQ(adam.config.optimizer.beta1, 0.9);
  EXPECT_EQ(adam.config.optimizer.beta2, 0.999);
  EXPECT_EQ(adam.config.optimizer.weight_decay, 0);
  EXPECT_EQ(adam.config.train.warmup_iters, 1000);
  EXPECT_FALSE(mentions(adam.warnings, "no scheduler"));
  EXPECT_EQ(resolved(R"({"optimizer": {"type": "Adam", "params": {"torch_adam": true}}})").config.optimizer.weight_decay, 0.01);
  EXPECT_EQ(resolved(R"({"optimizer": {"type": "Adam", "params": {"betas": "auto"}}})").config.optimizer.beta2, 0.95);
}

// DeepSpeedZeroConfig.stage of DeepSpeed's runtime/zero/config.py.
TEST_F(DeepSpeedTest, WithoutAStageThereIsNoZero) {
  for (const char* file : {"{}", R"({"zero_optimization": {}})", R"({"zero_optimization": {"overlap_comm": true}})"}) {
    const Resolved found = resolved(file);
    EXPECT_EQ(app::zero_level(found.config), 0) << file;
    EXPECT_TRUE(mentions(found.notes, "memory.zero = 0 (zero_optimization.stage)")) << file;
  }
  EXPECT_EQ(app::zero_level(resolved("{}", {"memory.zero=2"}).config), 2);
  EXPECT_EQ(app::zero_level(resolved(R"({"zero_optimization": {"stage": "auto"}})").config), 1) << "is left to the backend";
  const std::string run = folder_ / "run";
  io::make_folders(run);
  io::replace_file(run + "/config.toml", "[memory]\nzero = 1\n[optimizer]\nlearning_rate = 0.5\n");
  const Resolved resumed =
      resolved(R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.25}}})", {"log.dir=" + run, "train.init_from=resume"});
  EXPECT_EQ(app::zero_level(resumed.config), 1) << "a resume says no stage";
  EXPECT_EQ(resumed.config.optimizer.learning_rate, 0.25) << "it says this";
}

TEST_F(DeepSpeedTest, SettingsStandAboveWhatTheFileLeavesOut) {
  const char* file = R"({"optimizer": {"type": "AdamW"}, "scheduler": {"type": "WarmupLR"}})";
  const Resolved found = resolved(file, {"optimizer.beta2=0.95", "optimizer.learning_rate=2e-3", "train.warmup_iters=5"});
  EXPECT_EQ(found.config.optimizer.beta2, 0.95);
  EXPECT_EQ(found.config.optimizer.learning_rate, 2e-3);
  EXPECT_EQ(found.config.train.warmup_iters, 5);
  EXPECT_FALSE(mentions(found.notes, "beta2"));
  const std::string run = folder_ / "run";
  io::make_folders(run);
  io::replace_file(run + "/config.toml", "[optimizer]\nbeta2 = 0.9\n");
  const Resolved resumed = resolved(file, {"log.dir=" + run, "train.init_from=resume"});
  EXPECT_EQ(resumed.config.optimizer.beta2, 0.9) << "the run goes on with what it had";
}

TEST_F(DeepSpeedTest, WithoutAFileTheBackendMeansBf16AndZero1) {
  const app::RunConfig config = resolve({.files = {}, .overrides = {"train.backend=ds"}}).config;
  EXPECT_EQ(app::dtype_of(config), DType::bf16);
  EXPECT_EQ(app::zero_level(config), 1);
  EXPECT_EQ(app::dtype_of(resolve({.files = {}, .overrides = {"train.backend=ds", "train.dtype=fp32"}}).config), DType::f32);
}

TEST_F(DeepSpeedTest, SettingsOfTheCommandStandAboveTheFile) {
  const Resolved found = resolved(kZero2, {"memory.zero=3", "optimizer.gas=8", "train.backend=ds"}, 1);
  EXPECT_EQ(found.config.memory.zero, 3);
  EXPECT_EQ(found.config.optimizer.gas, 8);
  EXPECT_EQ(found.config.train.backend, app::BackendKind::ds);
  EXPECT_TRUE(mentions(found.warnings, "memory.zero = 3 stands above DeepSpeed's zero_optimization.stage"));
}

TEST_F(DeepSpeedTest, OneOfThreeBatchSizesFollowsFromTheOthers) {
  EXPECT_EQ(resolved(R"({"train_batch_size": 24, "gradient_accumulation_steps": 3})", {}, 2).config.model.batch_size, 4);
  EXPECT_EQ(resolved(R"({"train_batch_size": 24})", {}, 2).config.model.batch_size, 12);
  EXPECT_NE(refused(R"({"train_batch_size": 25, "train_micro_batch_size_per_gpu": 4})", {}, 2)
                .find("train_batch_size = 25 is not a multiple of 8 = 2 ranks x model.batch_size = 4"),
            std::string::npos);
  EXPECT_NE(refused(R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1})")
                .find("32 is not"),
            std::string::npos);
}

TEST_F(DeepSpeedTest, NothingFollowsFromTheBatchWhereRanksAreNotKnown) {
  const std::string path = folder_ / "ds.json";
  std::ofstream(path) << R"({"train_batch_size": 25, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3})";
  EXPECT_EQ(resolve({.files = {}, .overrides = {"train.ds_config_path=" + path}}).config.optimizer.gas, 3);
}

TEST_F(DeepSpeedTest, WhatWeCannotDoIsRefusedByNameAllAtOnce) {
  const std::string told = refused(R"({
    "fp16": {"enabled": true},
    "optimizer": {"type": "OneBitAdam", "params": {"lr": -1}},
    "scheduler": {"type": "OneCycle"},
    "zero_optimization": {"stage": 4, "zero_quantized_weights": true, "contigous_gradients": true},
    "train_batch_size": 0,
    "prescale_gradients": true,
    "unheard_of": 1
  })");
  for (const char* named :
       {"fp16.enabled = true", "loss scaling", "OneBitAdam", "optimizer.params.lr", "OneCycle", "zero_optimization.stage",
        "zero_quantized_weights", "did you mean zero_optimization.contiguous_gradients?", "train_batch_size = 0",
        "prescale_gradients", "unheard_of"}) {
    EXPECT_NE(told.find(named), std::string::npos) << named << " is not in\n" << told;
  }
}

// 2^62 + 1 elements are 2^64 + 4 bytes, which 64 bits would call 4.
TEST_F(DeepSpeedTest, NumbersThatCannotBeCountedAreRefused) {
  for (const char* number : {"4611686018427387905", "2305843009213693952", "-4611686018427387905"}) {
    const std::string text = refused(fmt::format(R"({{"zero_optimization": {{"reduce_bucket_size": {}}}}})", number));
    EXPECT_NE(text.find(fmt::format("zero_optimization.reduce_bucket_size = {}: the bytes of so many", number)),
              std::string::npos)
        << text;
  }
  for (const char* number : {"1e300", "18446744073709551616"}) {
    const std::string text = refused(fmt::format(R"({{"zero_optimization": {{"reduce_bucket_size": {}}}}})", number));
    EXPECT_NE(text.find("zero_optimization.reduce_bucket_size"), std::string::npos) << text;
  }
}

TEST_F(DeepSpeedTest, DecayInTheGradientIsRefused) {
  EXPECT_NE(
      refused(R"({"optimizer": {"type": "Adam", "params": {"weight_decay": 0.1, "adam_w_mode": false}}})").find("adam_w_mode"),
      std::string::npos);
  EXPECT_EQ(refused(R"({"optimizer": {"type": "Adam", "params": {"weight_decay": 0, "adam_w_mode": false}}})"), "");
}

TEST_F(DeepSpeedTest, AFileThatIsNoObjectOrMissingIsRefused) {
  EXPECT_NE(refused("[1]").find("no object of options"), std::string::npos);
  EXPECT_NE(refused("{").find("ds.json"), std::string::npos);
  try {
    resolve({.files = {}, .overrides = {"train.ds_config_path=/nowhere/ds.json"}});
    FAIL() << "a file that is not there is taken";
  } catch (const UserError& error) {
    ASSERT_EQ(error.problems().size(), 1U);
    EXPECT_NE(error.problems().front().message.find("/nowhere/ds.json"), std::string::npos);
  }
}

TEST_F(DeepSpeedTest, WordPlaysOwnFileIsYaml) {
  const std::string path = folder_ / "ds_config.yaml";
  std::ofstream(path) << R"(---
dump_state: false
# wall_clock_breakdown: true
zero_force_ds_cpu_optimizer: false
fp16:
  enabled: false
bf16:
  enabled: true
zero_optimization:
  stage: 1
  reduce_bucket_size: 5e8  # elements
gradient_accumulation_steps: 3
...
)";
  const Resolved found = resolve({.files = {}, .overrides = {"train.ds_config_path=" + path}, .ranks = 2});
  EXPECT_EQ(found.config.train.backend, app::BackendKind::deepspeed);
  EXPECT_EQ(app::zero_level(found.config), 1);
  EXPECT_EQ(app::dtype_of(found.config), DType::bf16);
  EXPECT_EQ(found.config.optimizer.gas, 3);
  EXPECT_EQ(found.config.parallel.bucket_bytes, 2'000'000'000);
  EXPECT_TRUE(mentions(found.notes, "nothing to do here for dump_state, zero_force_ds_cpu_optimizer")) << found.notes.size();
}

TEST_F(DeepSpeedTest, WhatYamlSaysIsWhatJsonSays) {
  EXPECT_EQ(json_from_yaml("a: 1\nb: [true, off, ~, 1e-7, .5, x y, '7', \"true\"]\nc: {d: &n {e: 2}, f: *n}\ng:\n", "f").dump(),
            R"({"a":1,"b":[true,false,null,1e-07,0.5,"x y","7","true"],"c":{"d":{"e":2},"f":{"e":2}},"g":null})");
  EXPECT_TRUE(json_from_yaml("", "f").is_null());
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      json_from_yaml(text, "f.yaml");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("a: 1\nb: [\n").find("f.yaml:3: no YAML: "), std::string::npos) << refusal("a: 1\nb: [\n");
  EXPECT_NE(refusal("a: 1\na: 2\n").find("f.yaml:2: a stands twice"), std::string::npos);
  EXPECT_NE(refusal("? [a, b]\n: 1\n").find("f.yaml:1: a key is no single word"), std::string::npos);
  EXPECT_NE(refusal("--- 1\n--- 2\n").find("several documents"), std::string::npos);
  EXPECT_EQ(json_from_yaml("a: 1\n---\n", "f").dump(), R"({"a":1})");
  // The library's parser finds documents without an end in it.
  EXPECT_NE(refusal(",--\na: 1\n").find("several documents"), std::string::npos);
  EXPECT_NE(refusal("&a [*a]").find("f.yaml"), std::string::npos);
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format("a{}: &a{} [", i, i);
    for (int each = 0; each < 10; ++each) bomb += fmt::format("*a{}{}", i - 1, each < 9 ? ", " : "]\n");
  }
  EXPECT_NE(refusal(bomb).find("more than 100000 values"), std::string::npos);
}

// DeepSpeed's own lists of its options (runtime/constants.py and the config classes), with values that ask for nothing.
TEST_F(DeepSpeedTest, EveryOptionOfDeepSpeedIsKnownByName) {
  EXPECT_EQ(refused(R"({
    "torch_autocast": {"enabled": false, "dtype": "bfloat16", "lower_precision_safe_modules": []},
    "bf16": {"enabled": true, "check_grad_overflow": true, "immediate_grad_update": true, "bf16_optimizer_states": false},
    "amp": {"enabled": false, "opt_level": "O1"}, "graph_harvesting": false, "vocabulary_size": 50257, "log_level": "info",
    "managed_gradient_accumulation": true, "gradient_allreduce_op": "mean", "seq_parallel_communication_data_type": "fp32",
    "dataloader_drop_last": false, "use_data_before_expert_parallelism": false, "disable_allgather": false,
    "nebula": {"enabled": false, "persistent_time_interval": 100}, "hybrid_engine": {"max_out_tokens": 512},
    "comet": {"enabled": true, "project": "x"}, "compile": {"deepcompile": false}, "timers": {"throughput": {"enabled": true}},
    "tensor_parallel": {"autotp_size": 1, "preset_model": "llama"}, "sequence_parallel_size": 1, "data_parallel_size": 2,
    "pipeline": {"stages": "auto", "partition": "best", "activation_checkpoint_interval": 0, "pipe_partitioned": true},
    "autotuning": {"enabled": false, "arg_mappings": {"a": "--b"}}, "elasticity": {"max_train_batch_size": 2000},
    "curriculum_learning": {"curriculum_type": "seqlen"}, "eigenvalue": {"enabled": false, "tol": 0.01},
    "zero_optimization": {"stage": 2, "module_granularity_threshold": 0, "stage3_allgather_sequential": false,
      "use_multi_rank_bucket_allreduce": true, "leaf_module": {"classes": []}, "enable_sanity_checks": false,
      "cpu_offload_use_pin_memory": false, "zenflow": null, "offload_optimizer": {"device": "none", "super_offload": false}}
  })"),
            "");
  const std::string told =
      refused(R"({"tensor_parallel": {"autotp_size": 4}, "pipeline": {"stages": 2}, "sequence_parallel_size": 2,
    "curriculum_learning": {"enabled": true, "curriculum_type": "seqlen"}, "gradient_allreduce_op": "sum",
    "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}})");
  for (const char* named :
       {"tensor_parallel.autotp_size = 4: layers are divided by a setting here -> parallel.tp=N", "pipeline.stages = 2",
        "parallel.pp=N", "sequence_parallel_size = 2", "parallel.cp=N", "curriculum_learning.enabled = true: samples are drawn",
        "gradient_allreduce_op = \"sum\"", "bf16_master_weights_and_grads = true"})
    EXPECT_NE(told.find(named), std::string::npos) << named << "\n" << told;
  EXPECT_EQ(told.find("curriculum_type"), std::string::npos) << told;
  EXPECT_EQ(resolved(R"({"bf16": {"enabled": true, "bf16_optimizer_states": true}})").config.optimizer.moments, DType::bf16);
}

TEST_F(DeepSpeedTest, AnotherBackendTakesNoFile) {
  EXPECT_NE(refused("{}", {"train.backend=FSDP"}).find("train.backend = FSDP has no such file"), std::string::npos);
  EXPECT_NE(refused("{}", {"train.backend=DDP"}).find("train.backend = DDP has no such file"), std::string::npos);
}

TEST_F(DeepSpeedTest, EveryOptionThatIsAKeyOfOursNamesOneAndIsInTheDocs) {
  const std::string docs = io::read_file("docs/deepspeed.md");
  for (const Option& option : options()) {
    if (option.kind == Option::Kind::sets) {
      EXPECT_NE(docs.find(fmt::format("| `{}` | `{}` |", option.name, option.key)), std::string::npos) << option.name;
    }
    if (!option.key.empty()) {
      EXPECT_NE(find_key(option.key), nullptr) << option.name;
    }
    EXPECT_EQ(option.kind == Option::Kind::only, option.allows != nullptr) << option.name;
  }
}

TEST_F(DeepSpeedTest, OffloadOfTheOptimizerIsOurs) {
  const Resolved disk = resolved(
      R"({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme", "buffer_count": 5}}})");
  EXPECT_EQ(disk.config.memory.offload_optimizer, app::OffloadTo::nvme);
  EXPECT_EQ(disk.config.memory.nvme_path, "/nvme");
  EXPECT_EQ(resolved(kZero3).config.memory.offload_optimizer, app::OffloadTo::cpu);
  const std::string nowhere = refused(R"({"zero_optimization": {"offload_optimizer": {"device": "nvme"}}})");
  EXPECT_NE(nowhere.find("memory.nvme_path does not say where"), std::string::npos) << nowhere;
  const Resolved weights =
      resolved(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/nvme"}}})");
  EXPECT_EQ(weights.config.memory.offload_params, app::OffloadTo::nvme);
  EXPECT_EQ(weights.config.memory.nvme_path, "/nvme");
  EXPECT_EQ(resolved(R"({"activation_checkpointing": {"cpu_checkpointing": true}})").config.memory.offload_activations,
            app::OffloadTo::cpu);
}

}  // namespace
}  // namespace lockstep::settings
