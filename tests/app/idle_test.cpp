// No setting does nothing: away from its value, each changes what the run does, or a line says why not, or it is refused.

#include "app/settings/idle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "app/settings/run_layout.h"
#include "app/start/assemble.h"
#include "app/start/cut_state.h"
#include "app/start/plan.h"
#include "app/start/resolve.h"
#include "app/train/train_rank.h"
#include "app/train/trainer_options.h"
#include "app/train_command.h"

namespace lockstep::settings {
namespace {

using app::RunConfig;
using Words = std::vector<std::string>;

struct Context {
  std::int64_t ranks;
  Words words;
};

// In each of them other keys do something.
const std::vector<Context> kContexts{
    {1, {}},
    {2, {"optimizer.gas=4", "parallel.pp=2", "data.io=readers"}},
    {2, {"optimizer.name=sgd", "optimizer.schedule=wsd", "train.max_epochs=3", "train.dtype=bf16", "data.dir=/d"}},
    {1, {"model.position=rope", "model.rope_scaling=llama3", "optimizer.decay_lr=false", "log.wandb=offline"}},
    {2, {"parallel.tp=2", "log.trace=true", "sample.temperature=0", "optimizer.weight_decay=0"}},
    {2, {"parallel.cp=2", "train.init_from=auto", "log.dir=/nowhere/run"}},
    {2, {"memory.zero=3", "memory.tiles=1x4", "optimizer.gas=2", "sample.tokens=0"}},
    {1, {"memory.offload_params=nvme", "memory.nvme_path=/tmp", "data.order=partition"}},
    {3, {"train.backend=ps", "parallel.ps=async", "train.dtype=bf16"}},
    {1, {"kernels.attention=materialised", "optimizer.name=sgd", "optimizer.momentum=0", "train.dtype=bf16"}},
    {1, {"train.eval_only=true"}},
    {1, {"train.objective=dpo", "data.order=partition", "checkpoint.seconds=30"}},
    {1, {"model.position=rope", "model.rope_scaling=yarn", "model.window=8", "adapter.rank=4"}},
    {1,
     {"model.position=rope", "model.rope_scaling=longrope", "model.head_dim=4", "model.rope_short_factors=1,1",
      "model.rope_long_factors=1,2"}},
};

/// Values to try in the place of a key's own, where neither its words nor its bounds give some.
const std::map<std::string_view, Words> kOthers{
    {"train.ds_config_path", {"/no/such/ds.json"}},
    {"train.init_from", {"resume", "/no/such/run"}},
    {"train.wandb_project", {"mine"}},
    {"train.kill_file", {"/tmp/stop"}},
    {"train.save_file", {"/tmp/save"}},
    {"data.dataset", {"openwebtext"}},
    {"data.out_dir", {"elsewhere"}},
    {"data.root_path", {"/texts"}},
    {"data.dir", {"/texts/mine"}},
    {"data.file", {"/texts/mine.txt"}},
    {"sample.prompt", {"Once"}},
    {"sample.every", {"epochs:2"}},
    {"parallel.schedule", {"gpipe", "interleaved", "zb-h1"}},
    {"parallel.split", {"12", "5,7"}},
    {"memory.recompute", {"full", "every:2"}},
    {"memory.limit", {"1TiB"}},
    {"memory.nvme_path", {"/var/tmp"}},
    {"memory.tiles", {"1x2"}},
    {"log.name", {"mine"}},
    {"log.dir", {"/nowhere/mine"}},
    {"log.machine", {"/no/such/machine.json"}},
    {"model.n_embd", {"384"}},
    {"model.family", {"mistral"}},
    {"model.n_head", {"6"}},
    {"model.rope_short_factors", {"1,3"}},
    {"model.rope_long_factors", {"1,3"}},
    {"adapter.targets", {"attention"}},
    {"train.tokens_per_step", {"36864"}},
    {"dpo.label_smoothing", {"0.1"}},
    {"eval.tasks", {"/no/such/task.jsonl"}},
    {"adapter.init_from", {"/no/such/adapter"}},
    {"optimizer.rounding", {"stochastic"}},
};

/// Whether the value says in other words what holds anyhow.
bool says_the_same(const Key& key, std::string_view value, const RunConfig& config, std::int64_t ranks) {
  if (key.name == "train.dtype" || key.name == "train.precision") return app::dtype_from_spelling(value) == app::dtype_of(config);
  if (key.name == "optimizer.moments") return app::dtype_from_spelling(value) == app::moments_of(config);
  if (key.name == "data.order") return value == "partition" && app::order_of(config) == data::Order::partition;
  return key.name == "parallel.dp" && value == std::to_string(app::replicas_of(config, ranks));
}

Words others(const Key& key, const Json& now) {
  if (const auto found = kOthers.find(key.name); found != kOthers.end()) return found->second;
  Words all;
  if (key.type == Type::boolean) all.emplace_back(now.is_bool() && now.boolean() ? "false" : "true");
  for (const std::string_view word : key.rule.words) {
    if (shown(now) != word) all.emplace_back(word);
  }
  if (key.type == Type::integer) {
    const std::int64_t value = now.is_int() ? now.integer() : static_cast<std::int64_t>(key.rule.low);
    all.push_back(std::to_string(static_cast<double>(value) < key.rule.high ? value + 1 : value - 1));
  }
  if (key.type == Type::number) all.push_back(fmt::format("{}", now.is_number() && now.number() > 0 ? now.number() / 2 : 0.5));
  return all;
}

/// What follows from the settings, as what a run is made of has it, in text.
std::string consequences(const RunConfig& config, std::int64_t ranks) {
  std::string out;
  const auto add = [&](const auto&... values) { ((out += fmt::format("{} ", values)), ...); };
  const auto add_optional = [&](const auto& value) { value ? add(*value) : add("none"); };
  const train::EngineConfig engine =
      app::assemble(config, {.vocabulary = 65}, app::layout_of(config, app::workers_of(config, ranks)));
  const arch::ModelConfig& model = engine.model;
  add(model.layers, model.heads, model.kv_heads, model.width, model.head_size, model.ffn_width, model.block_size,
      model.vocabulary, static_cast<int>(model.norm), static_cast<int>(model.position), static_cast<int>(model.activation),
      model.gated, static_cast<int>(model.init), model.bias, model.qkv_bias, model.tied, model.dropout, model.norm_eps,
      model.qk_norm, model.qk_norm_whole, model.pre_norm, model.residual_scale, model.logit_scale, model.post_norm,
      model.unit_offset, model.embedding_scale, model.attention_scale, model.attention_softcap, model.logit_softcap, model.window,
      model.family);
  add(static_cast<int>(engine.objective.kind), engine.objective.beta, engine.objective.label_smoothing);
  add(model.adapter.rank, config.adapter.init_from.value_or(""), config.eval.tasks.value_or(""));
  if (model.adapter.used()) add(model.adapter.scale(), model.adapter.targets, static_cast<int>(model.adapter.whole));
  if (model.window > 0) add(model.global_every);
  if (arch::has_local_theta(model)) add(model.rope.local_theta);
  if (model.position == arch::PositionKind::rope) {
    const arch::Rope& rope = model.rope;
    add(rope.theta, static_cast<int>(rope.scaling), rope.skip_every);
    if (rope.scaling != arch::RopeScaling::none) add(rope.factor);
    if (rope.scaling == arch::RopeScaling::llama3 || rope.scaling == arch::RopeScaling::yarn)
      add(rope.low_freq_factor, rope.high_freq_factor, rope.original_block_size, rope.attention_factor);
    if (rope.scaling == arch::RopeScaling::longrope) {
      add(rope.original_block_size, rope.attention_factor);
      for (const std::vector<double>& factors : {rope.short_factors, rope.long_factors})
        add(fmt::format("{}", fmt::join(factors, ",")));
    }
  }
  const train::OptimizerSettings& optimizer = engine.optimizer;
  add(static_cast<int>(engine.decay), static_cast<int>(engine.weights.type), engine.weights.master, optimizer.name,
      optimizer.beta1, optimizer.beta2, optimizer.eps, optimizer.momentum, optimizer.weight_decay,
      static_cast<int>(*optimizer.moments), static_cast<int>(optimizer.rounding), engine.grad_clip, engine.samples,
      engine.positions, engine.plan.microbatches, engine.seed, engine.saves_beside, engine.copied_pieces, engine.audit,
      engine.traced_steps, engine.offload.folder.string(), engine.gradients.bucket_bytes, engine.gradients.overlap);
  const app::RankOptions start = app::rank_options(config, ranks);
  add(start.servers, start.threads, static_cast<int>(start.isa), static_cast<int>(start.products), start.plain.products,
      start.plain.epilogues, start.plain.norm, start.plain.adamw, static_cast<int>(start.bf16), start.device, start.timeout);
  const std::int64_t iterations = config.train.max_epochs ? 7000 * *config.train.max_epochs : config.train.max_iters;
  const train::TrainerOptions loop = app::trainer_options_of(config, iterations, app::replicas_of(config, ranks));
  add(loop.max_iters, loop.log_interval, loop.eval_interval, loop.checkpoint_interval, loop.saves_beside, loop.eval_only,
      loop.sample.tokens, loop.sample.temperature, loop.sample.top_k, loop.sample.top_p, loop.sample.seed, loop.prompt,
      static_cast<int>(loop.style), loop.sample_epochs, loop.max_skipped, loop.peak_flops, config.log.tensorboard,
      app::keeps_wandb_history(config));
  add_optional(config.train.dump_step);
  add_optional(loop.checkpoint_seconds);
  add_optional(loop.switches.kill_file);
  add_optional(loop.switches.save_file);
  add_optional(loop.switches.max_minutes);
  for (const std::int64_t iteration : {0, 5, 10, 50, 90, 101, 5000, 9500, 9999, 20000, 20999}) add(loop.schedule(iteration));
  // What the data, the start of a run and its files read of the settings themselves.
  add(static_cast<int>(config.train.backend), config.train.eval_iters, config.train.init_from.text,
      static_cast<int>(config.train.global_batch), config.train.wandb_project, app::data_folder(config),
      config.data.file.value_or(""), static_cast<int>(app::order_of(config)), static_cast<int>(config.data.epoch_end),
      config.data.ids, static_cast<int>(config.data.shards), static_cast<int>(config.data.io), config.data.readers,
      config.data.workers, config.data.documents, config.log.all_ranks, config.log.machine.value_or(""),
      app::run_folder(config, "x"), config.log.name.value_or(""), config.memory.limit ? config.memory.limit->text : "");
  add_optional(config.parallel.staleness);
  add_optional(config.parallel.ranks_per_host);
  add_optional(config.parallel.broadcast_start);
  add(static_cast<int>(config.parallel.ps.value_or(train::ServerMode::gradients)));
  return out;
}

layout::ParallelPlan plan_of_far_devices(const RunConfig& config, std::int64_t ranks) {
  layout::ParallelPlan plan = app::layout_of(config, app::workers_of(config, ranks));
  layout::place_offloaded(plan, config.memory, false);
  return plan;
}

/// Adds the setting to those in the context. The result is empty where it does something, is told of or is refused by its name;
/// else the setting.
std::string idle_unsaid(const Context& context, const Resolved& before, const Key& key, const std::string& value) {
  const std::string word = fmt::format("{}={}", key.name, value);
  Sources sources{.files = {}, .overrides = context.words, .ranks = context.ranks};
  sources.overrides.push_back(word);
  try {
    const Resolved after = resolve(sources, [&](const RunConfig& config) { return app::check_layout(config, context.ranks); });
    const auto names = [&](const std::string& line) { return line.starts_with(fmt::format("{} = ", key.name)); };
    if (std::ranges::any_of(after.idle, names)) return "";
    if (consequences(after.config, context.ranks) != consequences(before.config, context.ranks)) return "";
    if (plan_of_far_devices(after.config, context.ranks) != plan_of_far_devices(before.config, context.ranks)) return "";
  } catch (const UserError& error) {
    if (std::string_view(error.what()).find(key.name) != std::string_view::npos ||
        std::string_view(error.what()).find(value) != std::string_view::npos)
      return "";
    return fmt::format("{}: {}", word, error.what());
  }
  return word;
}

TEST(Idle, NoSettingDoesNothingWithoutAWord) {
  for (const Context& context : kContexts) {
    const Resolved before = resolve({.files = {}, .overrides = context.words, .ranks = context.ranks});
    for (const Key& key : keys()) {
      const Words values = others(key, key.get(before.config));
      if (key.rule.words.size() != 1) {
        EXPECT_FALSE(values.empty()) << key.name;
      }
      for (const std::string& value : values) {
        if (says_the_same(key, value, before.config, context.ranks)) continue;
        EXPECT_EQ(idle_unsaid(context, before, key, value), "") << fmt::format("{}", fmt::join(context.words, " "));
      }
    }
  }
}

// But for those that are recorded for comparison alone, each works somewhere.
TEST(Idle, WhatIsIdleSomewhereIsNotEverywhere) {
  std::set<std::string_view> everywhere;
  for (const IdleRule& rule : idle_rules()) {
    for (const std::string_view name : rule.keys) {
      ASSERT_NE(find_key(name), nullptr) << name;
      const bool works = std::ranges::any_of(kContexts, [&](const Context& context) {
        const RunConfig config = resolve({.files = {}, .overrides = context.words, .ranks = context.ranks}).config;
        return idle_reason(*find_key(name), {config, context.ranks}).empty();
      });
      if (!works) everywhere.insert(name);
    }
  }
  EXPECT_EQ(everywhere, (std::set<std::string_view>{"train.framework", "train.port", "train.ngpus", "train.compile",
                                                    "train.always_save_checkpoint", "data.out_dir"}));
}

Words idle(const Words& words, std::int64_t ranks = 1) { return resolve({.files = {}, .overrides = words, .ranks = ranks}).idle; }

TEST(Idle, ALineHasTheValueAndTheReason) {
  EXPECT_EQ(idle({}), Words{});
  EXPECT_EQ(
      idle({"train.compile=false"}),
      Words{"train.compile = false: recorded only: kernels are compiled with the program, and kernels.* choose their ways"});
  EXPECT_EQ(idle({"optimizer.decay_lr=false", "train.warmup_iters=7"}),
            Words{"train.warmup_iters = 7: with optimizer.decay_lr = false the learning rate is constant"});
  EXPECT_EQ(idle({"train.max_epochs=2", "train.max_iters=50"}),
            Words{"train.max_iters = 50: train.max_epochs says how long the run is"});
  EXPECT_EQ(idle({"parallel.schedule=gpipe"}).size(), 1U);
  EXPECT_EQ(idle({"parallel.schedule=gpipe", "optimizer.gas=2"}), Words{});  // it keeps both micro-batches
  EXPECT_EQ(idle({"memory.zero=2"}).size(), 1U);
  EXPECT_EQ(idle({"memory.zero=2"}, 2), Words{});
  EXPECT_EQ(resolve({.files = {}, .overrides = {"memory.zero=2"}}).idle, Words{});  // who knows how many ranks
}

// Words count whatever they say; of a recipe that lists every key, what differs from what would hold without it.
TEST(Idle, DefaultsOfARecipeAreNotComplainedOf) {
  EXPECT_EQ(idle({"optimizer.name=sgd", "optimizer.beta1=0.9"}).size(), 1U);
  EXPECT_EQ(idle({"optimizer.name=sgd", "optimizer=default"}), Words{});
  EXPECT_EQ(idle({"optimizer.name=sgd", "optimizer=shakespeare"}),
            Words{"optimizer.beta2 = 0.99: it is of optimizer.name=AdamW and muon alone"});
  const TempFolder folder;
  RunConfig config;
  config.optimizer.name = "sgd";
  config.optimizer.eps = 1e-5;
  io::replace_file(folder / "recipe.toml", app::to_toml(config));
  EXPECT_EQ(resolve({.files = {folder / "recipe.toml"}, .overrides = {}, .ranks = 1}).idle,
            Words{"optimizer.eps = 1e-05: it is of optimizer.name=AdamW and muon alone"});
}

TEST(Idle, NanoGptsWordsCountToo) {
  const TempFolder folder;
  io::replace_file(folder / "run.py", "always_save_checkpoint = False\nbackend = 'nccl'\nmax_iters = 5\nwarmup_iters = 1\n");
  const Words lines = resolve({.files = {}, .overrides = {"--compile=False"}, .nanogpt = {(folder / "run.py").string()}}).idle;
  ASSERT_EQ(lines.size(), 3U) << fmt::format("{}", fmt::join(lines, "\n"));
  EXPECT_TRUE(lines[0].starts_with("train.always_save_checkpoint = false: recorded only")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("train.compile = false: recorded only")) << lines[1];
  EXPECT_EQ(lines[2], (folder / "run.py").string() +
                          ":2: backend: recorded nowhere: ranks exchange as they were started, by MPI or in one process");
}

TEST(Idle, PrecisionIsAnotherWordForTheType) {
  const auto dtype = [](const Words& words) { return app::dtype_of(resolve({.files = {}, .overrides = words}).config); };
  EXPECT_EQ(dtype({"train.precision=bf16"}), DType::bf16);
  EXPECT_EQ(dtype({"train.precision=fp32"}), DType::f32);
  EXPECT_EQ(dtype({"train.precision=bf16", "train.dtype=bfloat16"}), DType::bf16);
  const auto refusal = [&](const Words& words) -> std::string {
    try {
      dtype(words);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal({"train.precision=fp16"}).find("train.precision = fp16: must be one of float32, fp32, bfloat16, bf16"),
            std::string::npos);
  EXPECT_NE(refusal({"train.precision=bf16", "train.dtype=fp32"}).find("train.precision = bf16, and train.dtype = fp32: "),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::settings

namespace lockstep::app {
namespace {

class IdleSettings : public TrainCommand {};

TEST_F(IdleSettings, AreSaidUnderOneHeadingByRunsAndDryRuns) {
  const std::string heading = "Settings that change nothing in this run:\n  train.port = 80: recorded only: ";
  const Outcome run = lockstep(words("run", {"train.port=80", "parallel.overlap=false"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find(heading), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("\n  parallel.overlap = false: no ranks share parameters"), std::string::npos) << run.out;
  EXPECT_NE(lockstep(words("dry", {"train.port=80", "--dry-run"})).out.find(heading), std::string::npos);
  EXPECT_EQ(lockstep(words("none")).out.find("Settings that change nothing"), std::string::npos);
  // What a run that goes on has in its own recipe was said when it began.
  const Outcome resumed =
      lockstep({"train", "log.dir=" + (folder_ / "run").string(), "train.init_from=resume", "train.max_iters=9"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.out.find("Settings that change nothing"), std::string::npos) << resumed.out;
}

// Only the text tells how long an epoch is.
TEST_F(IdleSettings, WhatLiesBehindTheLastEpochIsWarnedOf) {
  const Outcome run = lockstep(words("run", {"train.max_epochs=1", "model.batch_size=64", "train.dump_step=100000",
                                             "train.warmup_iters=90000", "train.eval_interval=1000"}));
  EXPECT_EQ(run.code, 0) << run.err;
  for (const char* said :
       {"train.dump_step = 100000: train.max_epochs = 1 makes ", " iterations, so none is written",
        "train.warmup_iters = 90000: train.max_epochs = 1 makes ", "train.max_iters = 8: train.max_epochs says"})
    EXPECT_NE(run.out.find(said), std::string::npos) << said << "\n" << run.out;
}

TEST_F(IdleSettings, HalfPrecisionIsRefusedUntilItIsReal) {
  const Outcome refused = lockstep(words("half", {"train.precision=fp16"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("train.precision = fp16: must be one of "), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "half"));
}

}  // namespace
}  // namespace lockstep::app
