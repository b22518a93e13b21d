// What a rank's memory is declared to be, what an engine says of it, and what it takes. Configurations are random; some ranks are
// those of plans that are too large to run.

#include "train/memory/rank_memory.h"

#include <gtest/gtest.h>

#include <random>

#include "comm/thread/thread_world.h"
#include "support/counted_runtime.h"
#include "support/far_device.h"
#include "support/random_models.h"
#include "support/tiny_engine.h"
#include "train/replicas.h"
#include "train/server/server_side.h"
#include "train/server/worker_side.h"

namespace lockstep::train {
namespace {

EngineConfig random_config(std::mt19937& random) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  EngineConfig config;
  config.model = support::random_model(random);
  config.model.dropout = below(2) == 0 ? 0.1F : 0;
  config.weights = {.type = below(2) == 0 ? DType::f32 : DType::bf16, .master = below(2) == 0};
  if (below(3) == 0) config.optimizer = {.name = "sgd", .momentum = below(2) == 0 ? 0.9F : 0};
  if (below(3) == 0) config.optimizer.moments = below(2) == 0 ? DType::f32 : DType::bf16;
  config.samples = 1 + below(3);
  config.positions = 1 + below(static_cast<int>(config.model.block_size));
  config.plan.microbatches = 1 + below(3);
  config.plan.reduce = below(2) == 0 ? layout::ReduceEvery::step : layout::ReduceEvery::microbatch;
  config.plan.recompute = {static_cast<layout::Recompute::Kind>(below(3)), 1};
  config.traced_steps = below(3);
  return config;
}

/// Every byte of a ledger with its owner and name.
std::string text_of(const Ledger& ledger) {
  std::string text = ledger.table();
  for (const LedgerEntry& e : ledger.entries()) {
    text += std::string(name_of(e.kind)) + " " + e.owner + " " + e.name + " " + std::to_string(e.bytes) + "\n";
  }
  return text + std::to_string(ledger.total());
}

/// Takes the memory of an engine or a server, and expects it to be what `declared` says.
template <class Holder>
void expect_taken(Holder& holder, const Ledger& declared, const support::CountedRuntime& runtime, std::int64_t kernels) {
  EXPECT_EQ(text_of(holder.ledger()), text_of(declared));
  EXPECT_EQ(runtime.taken(), 0);
  holder.commit();
  EXPECT_EQ(runtime.taken(), declared.total() - kernels);
  EXPECT_EQ(text_of(holder.ledger()), text_of(declared));
}

TEST(RankMemory, DeclarationsAreTheBytesThatAnEngineTakes) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    EngineConfig config = random_config(random);
    config.plan.dp = 1 + static_cast<int>(random() % 3);
    layout::set_zero_level(config.plan, static_cast<int>(random() % 4));
    if (config.model.layers >= 2) config.plan.pp = 1 + static_cast<int>(random() % 2);
    if (config.model.layers >= 4 && config.plan.pp == 2) config.plan.schedule = "zb-v";
    config.plan.chunks = usual_chunks(*layout::find_schedule(config.plan.schedule), config.plan.pp);
    comm::run_ranks(config.plan.ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
      const RankMemory declared(config, layout::Mesh(config.plan).coordinates(world.rank()));
      support::Machine machine(1);
      world.attach(*machine.stream, machine.runtime->team());
      support::CountedRuntime runtime(*machine.runtime);
      Engine engine(config, runtime, *machine.ops, world);
      const std::int64_t kernels = machine.ops->workspace_bytes();
      expect_taken(engine, declared.ledger(kernels), runtime, kernels);
    });
  }
}

TEST(RankMemory, DeclarationsAreTheBytesOfWorkersAndServers) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    EngineConfig config = random_config(random);
    config.plan.reduce = layout::ReduceEvery::step;
    const int workers = config.plan.dp = 1 + static_cast<int>(random() % 3), servers = 1 + static_cast<int>(random() % 2);
    config.servers = {.mode = static_cast<ServerMode>(seed % 3), .count = servers};
    comm::run_ranks(workers + servers, {.timeout = 60}, [&](comm::Communicator& world) {
      const bool serves = world.rank() >= workers;
      const std::unique_ptr<comm::Communicator> group = world.split(serves ? 1 : 0, world.rank());
      support::Machine machine(1);
      world.attach(*machine.stream, machine.runtime->team());
      support::CountedRuntime runtime(*machine.runtime);
      const std::int64_t kernels = machine.ops->workspace_bytes();
      if (serves) {
        const ServerRankMemory declared(config, workers, group->rank());
        ServerSide server(config, {}, runtime, *machine.ops, world, *group);
        return expect_taken(server, declared.ledger(kernels), runtime, kernels);
      }
      const RankMemory declared(config, {.dp = world.rank()});
      support::RankEngine engine(config, runtime, *machine.ops, *group,
                                 [&](const UpdaterParts& parts) { return make_worker_updater(parts, world); });
      expect_taken(engine, declared.ledger(kernels), runtime, kernels);
    });
  }
}

// What shares bytes is counted once.
TEST(RankMemory, TensorsOfAllLayersAddUpToTheWhole) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    EngineConfig config = random_config(random);
    config.plan.dp = 1 + static_cast<int>(random() % 4);
    layout::set_zero_level(config.plan, static_cast<int>(random() % 4));
    const Ledger ledger = RankMemory(config, {}).ledger(0);
    std::int64_t bytes = 0, weights = 0;
    for (const LedgerTensor& tensor : ledger.tensors()) {
      EXPECT_GT(tensor.bytes, 0);
      bytes += tensor.bytes;
    }
    EXPECT_EQ(bytes, ledger.total());
    for (const LedgerEntry& entry : ledger.entries())
      weights += entry.name == "weights" && entry.layer == "h.0" ? entry.taken : 0;
    if (config.plan.dp > 1) continue;
    const std::vector<layout::Unit> units = arch::units_of(arch::unit_table(config.model));
    const auto block = static_cast<std::size_t>(arch::unit_map(config.model).blocks.front().value);
    EXPECT_EQ(weights, units[block].elements * static_cast<std::int64_t>(size_of(config.weights.type)));
  }
}

TEST(RankMemory, WhatHostAndDeviceBothUseIsCountedOnBoth) {
  for (const arch::ModelConfig& model :
       {support::tiny_model(), support::tiny_llama(), support::tiny_qwen3(), support::tiny_gemma()}) {
    const EngineConfig config = support::tiny_config(model);
    support::FarMachine far(1);
    support::Machine& machine = far.machine();
    support::CountedRuntime runtime(*machine.runtime);
    const RankMemory declared(config, {}, runtime.device());
    support::RankEngine engine(config, runtime, *machine.ops, *machine.world);
    const std::int64_t kernels = machine.ops->workspace_bytes();
    EXPECT_NE(declared.ledger(kernels).table().find("to and from files"), std::string::npos);
    expect_taken(engine, declared.ledger(kernels), runtime, kernels);
    EXPECT_GT(declared.ledger(0).total(), RankMemory(config, {}).ledger(0).total());
  }
}

TEST(RankMemory, IsTakenOnTheDeviceThatItWasDeclaredFor) {
  support::FarMachine far(1);
  RankMemory memory(support::tiny_config(), {});
  Runtime& runtime = *far.machine().runtime;
  EXPECT_THROW(memory.commit(runtime, runtime.memory()), BrokenRule);
}

/// GPT-3's largest model on 1,024 ranks.
EngineConfig gpt3() {
  EngineConfig config;
  arch::ModelConfig& model = config.model;
  model.layers = model.heads = model.kv_heads = 96;
  model.width = 12288;
  model.head_size = 128;
  model.ffn_width = 49152;
  model.block_size = 2048;
  model.vocabulary = 50257;
  model.bias = model.qkv_bias = true;
  config.weights = support::bf16_with_masters;
  config.positions = 2048;
  config.plan = {.dp = 8, .tp = 8, .pp = 16, .microbatches = 24, .ranks_per_host = 8};
  return config;
}

std::int64_t elements_of(const RankPart& part) {
  std::int64_t elements = 0;
  for (const layout::Unit& unit : part.units) {
    for (const layout::PlacedParameter& parameter : unit.parameters) elements += parameter.shape().elements();
  }
  return elements;
}

/// Elements that the tensor ranks of a stage all hold beyond the first one's, over all stages.
std::int64_t repeated_elements(const EngineConfig& config) {
  std::int64_t elements = 0;
  for (const arch::UnitSpec& unit : arch::unit_table(config.model)) {
    for (const arch::ParameterSpec& parameter : unit.parameters) {
      const bool whole = parameter.info.rule.axis < 0;
      elements += whole ? (config.plan.tp - 1) * parameter.info.shape.elements() : 0;
    }
  }
  return elements;
}

// 175 billion parameters, of which the first and the last stage both have the tied matrix.
TEST(RankMemory, ARankOfAThousandIsDeclaredWhereNothingRuns) {
  const EngineConfig config = gpt3();
  const layout::Mesh mesh(config.plan);
  ASSERT_EQ(mesh.ranks(), 1024);
  const RankMemory memory(config, mesh.coordinates(700));
  const RankPart& part = memory.part;
  EXPECT_EQ(part.at, (layout::Coordinates{.dp = 7, .tp = 4, .pp = 10}));
  ASSERT_EQ(part.chunks.size(), 1U);
  EXPECT_EQ(part.chunks.front().blocks, (layout::Range{60, 6}));
  EXPECT_FALSE(part.embedding || part.head);
  EXPECT_EQ(part.dims.heads, 12);
  EXPECT_FALSE(memory.tokens.elements() > 1 || memory.updater.gradients.tied);
  // Six blocks of 12 C^2 elements, an eighth of each here.
  const std::int64_t matrices = 6 * 12 * config.model.width * config.model.width / 8;
  const Ledger ledger = memory.ledger(0);
  EXPECT_NEAR(static_cast<double>(ledger.total(MemoryKind::parameters)), 2.0 * static_cast<double>(matrices), 3e6);
  EXPECT_EQ(ledger.total(MemoryKind::gradients), 2 * ledger.total(MemoryKind::parameters));
  EXPECT_NEAR(static_cast<double>(ledger.total(MemoryKind::optimizer)), 10.0 * static_cast<double>(matrices), 2e7);
  // As many micro-batches are alive as there are stages from here on.
  EXPECT_EQ(memory.model.shape().lives.front().kept, 6);
}

TEST(RankMemory, TheRanksOfAStageTimesAllStagesHaveTheModel) {
  std::vector<EngineConfig> configs{gpt3()};
  configs.push_back(gpt3());
  configs.back().model.tied = false;
  configs.back().plan.sequence = true;
  configs.push_back(gpt3());
  configs.back().plan = {.dp = 2, .tp = 3, .pp = 7, .microbatches = 5};  // nothing divides
  for (const EngineConfig& config : configs) {
    const layout::Mesh mesh(config.plan);
    std::int64_t elements = 0;
    for (int pp = 0; pp < config.plan.pp; ++pp) {
      for (int tp = 0; tp < config.plan.tp; ++tp) {
        const RankMemory memory(config, {.dp = 1, .tp = tp, .pp = pp});
        elements += elements_of(memory.part);
        EXPECT_EQ(text_of(memory.ledger(0)), text_of(RankMemory(config, {.dp = 0, .tp = tp, .pp = pp}).ledger(0)));
      }
    }
    const std::int64_t tied_twice = config.model.tied ? config.model.vocabulary * config.model.width : 0;
    EXPECT_EQ(elements, arch::count_parameters(config.model).total + repeated_elements(config) + tied_twice);
  }
}

// Outside of boundaries sequence parallelism divides what tensor ranks would all keep.
TEST(RankMemory, SequenceParallelismKeepsFewerRows) {
  EngineConfig config = gpt3();
  const std::int64_t all = RankMemory(config, {.pp = 3}).ledger(0).total(MemoryKind::activations);
  config.plan.sequence = true;
  EXPECT_LT(RankMemory(config, {.pp = 3}).ledger(0).total(MemoryKind::activations), all);
}

TEST(RankMemory, PlansThatNothingKeepsToAreRefused) {
  const auto refused = [](const auto& change) {
    EngineConfig config = gpt3();
    change(config.plan);
    EXPECT_THROW(RankMemory(config, {}), BrokenRule);
  };
  using layout::CutOver, layout::ParallelPlan, layout::Tier;
  refused([](ParallelPlan& plan) { plan.parameters.cut = CutOver::all; });
  refused([](ParallelPlan& plan) { plan.gradients.cut = CutOver::host; });
  refused([](ParallelPlan& plan) { plan.parameters.tier = Tier::disk; });
  refused([](ParallelPlan& plan) { plan.gradients.tier = Tier::host; });
  refused([](ParallelPlan& plan) { plan.chunks = 2; });
  refused([](ParallelPlan& plan) { plan.schedule = "backwards"; });
}

TEST(RankMemory, TheUpdaterIsTheOneThatMemoryIsDeclaredFor) {
  support::Machine machine(1);
  EngineConfig config = support::tiny_config();
  const auto make = [&](const auto&... updater) {
    support::RankEngine engine(config, *machine.runtime, *machine.ops, *machine.world, updater...);
  };
  EXPECT_THROW(make([&](const UpdaterParts& parts) { return make_worker_updater(parts, *machine.world); }), BrokenRule);
  config.servers = {.mode = ServerMode::async, .count = 1};
  EXPECT_THROW(make(), BrokenRule);
}

}  // namespace
}  // namespace lockstep::train
