#pragma once

// All settings of a run, as plain values. Names, ranges, meanings and units stand in one table (app/settings/keys), from which
// reading, printing and the help are made; defaults are the ones written here. Settings come in by settings::resolve
// (app/settings/resolve).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/settings/value_types.h"
#include "arch/config.h"
#include "arch/parameters.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/json.h"
#include "data/sampler.h"
#include "device/device.h"
#include "layout/plan_wish.h"
#include "ops/cpu/options.h"
#include "train/engine_config.h"
#include "train/lr_schedule.h"
#include "train/objective/objective.h"
#include "train/optimizer/optimizer.h"
#include "train/report/metrics.h"

namespace lockstep::app {

using layout::OffloadTo;

struct RunConfig {
  struct Train {
    std::string framework = "pytorch";
    BackendKind backend = BackendKind::ddp;
    std::optional<DeviceKind> device;
    std::optional<std::int64_t> seed;
    std::optional<std::int64_t> port;
    std::optional<std::string> ds_config_path;
    std::optional<SpeltDType> precision;
    std::optional<std::int64_t> ngpus;
    bool use_wandb = true;
    std::int64_t eval_interval = 250;
    std::int64_t log_interval = 100;
    std::optional<std::int64_t> asked_log_interval;  // no setting: what it was before the rule for short runs
    std::int64_t eval_iters = 200;
    bool eval_only = false;
    bool always_save_checkpoint = false;
    InitFrom init_from;
    std::string wandb_project = "WordPlay";
    std::int64_t max_iters = 10000;
    std::int64_t warmup_iters = 100;
    SpeltDType dtype;
    bool compile = true;
    std::optional<std::int64_t> threads;
    std::optional<std::int64_t> max_epochs;
    std::optional<double> max_minutes;
    std::optional<std::string> kill_file, save_file;
    std::optional<std::int64_t> dump_step;
    std::optional<double> peak_tflops;
    std::int64_t max_skipped = 10;
    std::int64_t audit = 0;
    GlobalBatch global_batch = GlobalBatch::keep;
    train::Objective objective = train::Objective::lm;
    std::optional<std::int64_t> tokens_per_step;  // null: optimizer.gas says it
    bool operator==(const Train&) const = default;
  };
  struct Model {
    std::int64_t n_layer = 12, n_head = 12, n_embd = 768;
    std::int64_t batch_size = 12;
    std::int64_t block_size = 1024;
    Activation activation;
    double dropout = 0;
    bool bias = false;
    std::optional<std::int64_t> vocab_size;  // null: the data's
    std::optional<bool> qkv_bias;            // null: as bias
    bool tied = true;
    arch::InitKind init = arch::InitKind::gpt2;
    arch::NormKind norm = arch::NormKind::layernorm;
    double norm_eps = 1e-5;
    std::optional<std::int64_t> n_kv_head, head_dim, ffn_width;  // null: what usually follows from the other sizes
    arch::PositionKind position = arch::PositionKind::learned;
    double rope_theta = 10000;  // this and the rest: of model.position=rope alone
    arch::RopeScaling rope_scaling = arch::RopeScaling::none;
    double rope_factor = 8, rope_low_freq_factor = 1;
    std::optional<double> rope_high_freq_factor, rope_attention_factor;  // null: what the scaling usually has
    std::int64_t rope_original_block_size = 8192, rope_skip_every = 0;
    std::optional<Factors> rope_short_factors, rope_long_factors;
    bool qk_norm = false, qk_norm_whole = false, pre_norm = true, post_norm = false, norm_unit_offset = false;
    double rope_local_theta = 0, embedding_scale = 1, attention_softcap = 0, logit_softcap = 0, residual_scale = 1,
           logit_scale = 1;
    std::optional<double> attention_scale;  // null: 1 / sqrt(head_dim)
    std::int64_t window = 0, global_every = 0;
    std::optional<std::string> family;  // null: what the parts say
    bool operator==(const Model&) const = default;
  };
  struct Adapter {
    std::int64_t rank = 0;
    double alpha = 16;
    Targets targets;
    arch::WholeEnds whole = arch::WholeEnds::none;
    bool rank_stabilised = false;
    std::optional<std::string> init_from;
    bool operator==(const Adapter&) const = default;
  };
  struct Dpo {
    double beta = 0.1, label_smoothing = 0;
    bool operator==(const Dpo&) const = default;
  };
  struct Data {
    std::string dataset = "shakespeare_char";
    std::optional<std::string> out_dir = "out-shakespeare-char";
    std::optional<std::string> root_path;
    std::optional<std::string> dir, file;
    data::Order order = data::Order::random;
    EpochEnd epoch_end = EpochEnd::drop;
    std::string ids = "auto";
    DataShards shards = DataShards::global;
    DataIo io = DataIo::files;
    std::int64_t readers = 1;
    std::int64_t workers = 1;
    bool documents = false;
    bool operator==(const Data&) const = default;
  };
  struct Eval {
    std::optional<std::string> tasks;
    bool operator==(const Eval&) const = default;
  };
  struct Optimizer {
    std::int64_t gas = 1;
    std::string name = "AdamW";
    double learning_rate = 6e-4;
    double weight_decay = 0.1;
    double beta1 = 0.9, beta2 = 0.95;
    double momentum = 0.9;
    double grad_clip = 1;
    bool decay_lr = true;
    std::int64_t lr_decay_iters = 600000;
    double min_lr = 6e-5;
    double eps = 1e-8;
    bool master_weights = true;
    std::optional<DType> moments;  // null: fp32, or bf16 without master weights
    train::Rounding rounding = train::Rounding::nearest;
    train::LrSchedule::Kind schedule = train::LrSchedule::Kind::wordplay;
    double wsd_decay = 0.1;
    arch::DecayRule decay = arch::DecayRule::matrices;
    LrScaling lr_scaling = LrScaling::none;
    bool operator==(const Optimizer&) const = default;
  };
  struct Sample {
    std::string prompt = "What is an LLM?";
    std::int64_t tokens = 256;
    double temperature = 0.8;
    std::optional<std::int64_t> top_k = 16;
    double top_p = 1;
    SampleEvery every;
    bool operator==(const Sample&) const = default;
  };
  struct Parallel : layout::ParallelWish {
    std::optional<bool> broadcast_start;    // null: for start values
    std::optional<std::int64_t> servers;    // the rest is for train.backend=ps alone; null: 1
    std::optional<train::ServerMode> ps;    // null: gradients
    std::optional<std::int64_t> staleness;  // null: no bound
    bool operator==(const Parallel&) const = default;
  };
  struct Memory : layout::MemoryWish {
    std::optional<ByteCount> limit;  // per host; null: none
    std::optional<std::string> nvme_path;
    bool operator==(const Memory&) const = default;
  };
  struct Comm {
    double timeout = 600;
    bool operator==(const Comm&) const = default;
  };
  struct Numerics {
    ops::Isa isa = ops::Isa::automatic;
    ops::Products products = ops::Products::ours;
    ops::Bf16Order bf16 = ops::Bf16Order::automatic;
    bool canonical = false;
    bool operator==(const Numerics&) const = default;
  };
  struct Kernels {
    MaskKernel mask = MaskKernel::computed;
    ProductKernel products = ProductKernel::best;
    AdamWKernel adamw = AdamWKernel::fused;
    NormKernel norm = NormKernel::fused;
    AttentionKernel attention = AttentionKernel::tiled;
    bool epilogues = true;
    bool operator==(const Kernels&) const = default;
  };
  struct Checkpoint {
    std::optional<std::int64_t> interval;  // null: train.eval_interval
    std::optional<double> seconds;         // null: never by the clock
    std::optional<bool> async;             // null: false
    CopiesTo copies = CopiesTo::none;
    bool operator==(const Checkpoint&) const = default;
  };
  struct Logging {
    std::optional<std::string> name, dir;
    train::LogStyle style = train::LogStyle::plain;
    bool all_ranks = false;
    bool tensorboard = false;
    WandbMode wandb = WandbMode::off;
    bool trace = false;
    std::int64_t trace_steps = 10;
    std::optional<std::string> machine;
    bool operator==(const Logging&) const = default;
  };

  Train train;
  Model model;
  Adapter adapter;
  Dpo dpo;
  Eval eval;
  Data data;
  Optimizer optimizer;
  Sample sample;
  Parallel parallel;
  Memory memory;
  Comm comm;
  Numerics numerics;
  Kernels kernels;
  Checkpoint checkpoint;
  Logging log;
  bool operator==(const RunConfig&) const = default;
};

// What follows from the settings.
DType dtype_of(const RunConfig& config);
/// fp32, float32, bf16 and bfloat16: how users spell the types of weights and activations.
const std::vector<std::string>& dtype_spellings();
DType dtype_from_spelling(std::string_view spelling);
/// "float32", "bfloat16".
std::string_view spelt(DType type);
/// optimizer.moments; null: the type of the weights that are updated.
DType moments_of(const RunConfig& config);
/// Which kernels take their plain way.
ops::PlainKernels plain_kernels_of(const RunConfig& config);
layout::AttentionWeights attention_of(const RunConfig& config);
/// data.order; with train.max_epochs always partition.
data::Order order_of(const RunConfig& config);
/// train.seed, or 1337 when it is null.
std::uint64_t seed_of(const RunConfig& config);
std::int64_t checkpoint_interval(const RunConfig& config);
/// Whether saves by the clock go into the memory of hosts.
bool makes_copies(const RunConfig& config);
/// memory.zero, or what train.backend names: how many kinds of state are cut over the ranks, 0 to 3.
int zero_level(const RunConfig& config);
/// What the settings ask of the run's plan. set_plan_wish() makes settings that ask for `wish`. Null is null in both.
layout::PlanWish plan_wish(const RunConfig& config);
void set_plan_wish(RunConfig& config, const layout::PlanWish& wish);
/// Whether something goes to memory.nvme_path.
bool offloads_to_disk(const RunConfig& config);
/// The tokens of a step: gas x ranks x batch x block.
std::int64_t tokens_per_iteration(const RunConfig& config, std::int64_t ranks = 1);
/// Where the token files lie: data.dir, else <data.root_path or "data">/<data.dataset>.
std::string data_folder(const RunConfig& config);
/// Whether train.init_from asks to go on with the run in its folder, where there is one.
bool may_resume(const RunConfig& config);
/// Whether train.init_from is a folder of weights, which a new run starts from.
bool starts_from_folder(const RunConfig& config);
/// Where the run keeps its files: log.dir, else runs/<log.name, else `generated_name`>.
std::string run_folder(const RunConfig& config, std::string_view generated_name);
/// `vocabulary`: the data's, used unless model.vocab_size is given.
arch::ModelConfig model_config(const RunConfig& config, std::int64_t vocabulary);
/// What optimizer.lr_scaling multiplies the learning rates of `ranks` ranks by.
double lr_factor(const RunConfig& config, std::int64_t ranks);
/// log.all_ranks, or LOG_FROM_ALL_RANKS=1 in the environment.
bool logs_from_all_ranks(const RunConfig& config);

/// log.wandb, unless train.use_wandb or, in the environment, WANDB_DISABLED says otherwise.
bool keeps_wandb_history(const RunConfig& config);

/// The settings as {"train": {...}, "model": {...}, ...} in the table's order. `vocabulary` (when positive) stands in for
/// model.vocab_size. `wordplay_keys_only`: the keys that the WordPlay run printed, and no others.
Json to_json(const RunConfig& config, std::int64_t vocabulary = 0, bool wordplay_keys_only = false);
/// The settings as TOML, without defaults that decide nothing of what is learned; read_config_file gives back an equal RunConfig.
std::string to_toml(const RunConfig& config);

}  // namespace lockstep::app
