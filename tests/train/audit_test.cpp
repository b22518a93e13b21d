// train.audit: what replicas do twice has the same bits in every layout, and a rank with a wrong bit is named.

#include "train/audit/audit.h"

#include <gtest/gtest.h>

#include <array>
#include <list>
#include <mutex>
#include <set>
#include <sstream>

#include "support/layout_run.h"

namespace lockstep::train {
namespace {

using parallel::AuditedGradients;
using support::LayoutRank;
using support::LayoutRun;

LayoutRun audited(LayoutRun run) {
  run.audit = 1;
  return run;
}

void expect_nothing_changes(LayoutRun run) {
  SCOPED_TRACE(run.layout);
  run.model.dropout = run.model.position == arch::PositionKind::rope ? 0 : 0.1F;
  support::expect_equal(support::learn(audited(run)), support::learn(run));
}

TEST(Audit, ChangesNothingInAnyLayout) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()}) {
    for (const char* layout : {"dp=2", "dp=3,gas=2", "dp=2,gas=2,zero=1", "dp=2,gas=2,zero=2", "dp=2,gas=2,zero=3", "dp=2,zero=3",
                               "dp=2,tp=2", "dp=2,tp=2,sequence,gas=2", "dp=2,pp=2,gas=2", "dp=2,pp=2,gas=2,schedule=gpipe",
                               "dp=2,cp=2,gas=2", "dp=2,tp=2,pp=2,gas=2,zero=1"})
      expect_nothing_changes({.layout = layout, .model = model});
  }
}

TEST(Audit, ChangesNothingInAnyTypeOrWhereStateLiesElsewhere) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone})
    expect_nothing_changes({.layout = "dp=2,gas=2", .weights = weights});
  for (const char* method : {"sgd", "lars", "muon"})
    expect_nothing_changes({.layout = "dp=2,gas=2", .optimizer = {.name = method, .momentum = 0.9F}});
  for (const char* moved : {"offload_optimizer=cpu", "zero=3,offload_params=cpu", "offload_activations=cpu", "recompute=full"})
    expect_nothing_changes({.layout = std::string("dp=2,gas=2,") + moved});
  expect_nothing_changes({.layout = "dp=2,pp=2,schedule=zb-h1"});
  expect_nothing_changes({.layout = "dp=2,cp=2", .positions = 7, .document_end = 3});
}

/// The error of a run in whose step `step` a rank does something wrong.
std::string error_of(const LayoutRun& run, const std::function<void(LayoutRank&, int step)>& before_step,
                     const parallel::StoreFactory& stores = parallel::make_parameter_store) {
  std::mutex mutex;
  std::string said;
  support::on_layout(
      audited(run),
      [&](LayoutRank& rank) {
        rank.engine().initialise();
        try {
          for (int step = 0; step < 3; ++step) {
            before_step(rank, step);
            rank.step(step);
          }
        } catch (const SystemError& error) {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(said.empty() || said == error.what()) << "all ranks say the same";
          said = error.what();
        }
      },
      stores);
  return said;
}

void flip(const Tensor& tensor, std::uint64_t bit) {
  elements<std::byte>(tensor)[bit / 8 % tensor.bytes()] ^= std::byte{1} << static_cast<int>(bit % 8);
}

TEST(Audit, AWrongBitOfWeightsOrSlotsIsNamed) {
  for (const bool slots : {false, true}) {
    const auto change = [&](LayoutRank& rank, int step) {
      if (step != 2 || rank.rank() != 1) return;
      bool done = false;
      rank.engine().state().for_each({.slots = true, .changes = true}, [&](const parallel::StateRange& range) {
        if (!std::exchange(done, true)) flip(slots ? range.slots[1] : range.master, 12345);
      });
    };
    const char* what = slots ? "the optimizer's slots" : "the weights";
    const std::string three = error_of({.layout = "dp=3"}, change), two = error_of({.layout = "dp=2"}, change);
    EXPECT_NE(three.find(std::string("step 3: ") + what + " of "), std::string::npos) << three;
    EXPECT_NE(three.find("on rank 1 are not those of the other ranks"), std::string::npos) << three;
    EXPECT_NE(three.find("from a checkpoint of step 1 or before"), std::string::npos) << three;
    EXPECT_NE(two.find("on ranks 0 and 1 differ, and one of these ranks is wrong"), std::string::npos) << two;
  }
}

/// Lends the weights of a block with a wrong bit, once.
class WrongStore final : public parallel::ParameterStore {
 public:
  /// `turn`: how many leases of blocks come before it; negative: none is wrong.
  WrongStore(std::unique_ptr<parallel::ParameterStore> store, int& turn) : store_(std::move(store)), turn_(turn) {}
  const std::vector<layout::Unit>& units() const override { return store_->units(); }
  DType dtype() const override { return store_->dtype(); }
  DType owned_dtype() const override { return store_->owned_dtype(); }
  Shard shard(UnitIndex unit) override { return store_->shard(unit); }
  void add_packed(UnitIndex unit, const parallel::PackedMatrix& matrix) override { store_->add_packed(unit, matrix); }
  void begin(const std::vector<layout::Access>& order) override { store_->begin(order); }
  void updated(Changed what) override { store_->updated(what); }
  parallel::Lease lease(const layout::Access& access) override {
    const std::vector<UnitIndex> blocks = arch::unit_map(support::tiny_model()).blocks;
    const bool of_block = std::ranges::find(blocks, access.part.unit) != blocks.end();
    lent_.push_back({access, store_->lease(access), of_block && turn_-- == 0});
    const Lent& lent = lent_.back();
    if (lent.wrong) flip(lent.lease.flat(), wrong_bit);
    return {this, access, lent.lease.flat(), lent.lease.packed()};
  }

 private:
  static constexpr std::uint64_t wrong_bit = 32 * 40 + 20;  // of a number's fraction
  struct Lent {
    layout::Access access;
    parallel::Lease lease;
    bool wrong;
  };
  void release(const layout::Access& access) noexcept override {
    const auto found = std::find_if(lent_.rbegin(), lent_.rend(), [&](const Lent& lent) { return lent.access == access; });
    if (found->wrong) flip(found->lease.flat(), wrong_bit);
    lent_.erase(std::next(found).base());
  }
  std::unique_ptr<parallel::ParameterStore> store_;
  int& turn_;
  std::list<Lent> lent_;
};

std::string error_of_wrong_rank(const LayoutRun& run, int wrong, int turn) {
  std::vector<int> turns(static_cast<std::size_t>(run.plan().ranks()), -1);
  const parallel::StoreFactory stores = [&](const parallel::ParameterMemory& memory, const parallel::Groups& groups,
                                            Stream& stream) -> std::unique_ptr<parallel::ParameterStore> {
    return std::make_unique<WrongStore>(parallel::make_parameter_store(memory, groups, stream),
                                        turns[static_cast<std::size_t>(groups.all().rank())]);
  };
  return error_of(
      run,
      [&](LayoutRank& rank, int step) {
        if (step == 1 && rank.rank() == wrong) turns[static_cast<std::size_t>(wrong)] = turn;
      },
      stores);
}

// In the own passes, and in those that are done again.
TEST(Audit, ARankThatComputesWronglyOnceIsNamed) {
  for (int turn = 0; turn < 8; ++turn) {
    const std::string three = error_of_wrong_rank({.layout = "dp=3"}, 1, turn);
    EXPECT_NE(three.find("step 2: rank 1 is wrong: two other replicas agree on a micro-batch"), std::string::npos)
        << turn << ": " << three;
    const std::string two = error_of_wrong_rank({.layout = "dp=2"}, 1, turn);
    EXPECT_NE(two.find("step 2: ranks 0 and 1 made different gradients of "), std::string::npos) << turn << ": " << two;
  }
}

TEST(Audit, TheReplicaOfAWrongRankIsNamedInEveryLayout) {
  for (const char* layout : {"dp=3,tp=2", "dp=3,pp=2,gas=2", "dp=3,cp=2"}) {
    const LayoutRun run{.layout = layout};
    const layout::Mesh mesh(run.plan());
    for (const int wrong : {0, 3}) {
      const std::string said = error_of_wrong_rank(run, wrong, 1);
      const std::size_t end = said.find(" wrong: two other replicas agree");
      ASSERT_NE(end, std::string::npos) << layout << ": " << said;
      std::set<int> named;
      std::istringstream words(said.substr(7, end - 7));  // behind "step 2:"
      for (std::string word; words >> word;) {
        if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) named.insert(std::stoi(word));
      }
      EXPECT_TRUE(named.contains(wrong)) << layout << ": " << said;
      for (const int rank : named) EXPECT_EQ(mesh.coordinates(rank).dp, mesh.coordinates(wrong).dp) << layout << ": " << said;
    }
  }
}

/// Gradients that a test writes.
class Given final : public parallel::GradientStore {
 public:
  explicit Given(const std::vector<layout::Unit>& units) : memory_(units.size()) {
    for (std::size_t u = 0; u < units.size(); ++u) memory_[u].resize(static_cast<std::size_t>(units[u].elements));
  }
  void begin(int /*microbatches*/) override {}
  void expect(const Tensor& /*tokens*/) override {}
  parallel::OpenGradient open(UnitIndex unit, Microbatch /*microbatch*/) override {
    std::vector<float>& values = memory_[static_cast<std::size_t>(unit.value)];
    return {view(std::span(values), Shape{std::ssize(values)}), false};
  }
  Tensor open_rows(Microbatch /*microbatch*/) override { return {}; }
  void close(UnitIndex /*unit*/, Microbatch /*microbatch*/) override {}
  void finish() override {}
  Shard shard(UnitIndex /*unit*/) override { return {}; }

 private:
  std::vector<std::vector<float>> memory_;
};

TEST(Audit, EachOfAThousandFlippedBitsOfGradientsIsFound) {
  const arch::ModelConfig model = support::tiny_llama();
  const arch::UnitMap map = arch::unit_map(model);
  const std::vector<layout::Unit> units = arch::units_of(arch::unit_table(model, arch::DecayRule::matrices));
  parallel::AuditMemory memory;
  Arena arena("again", MemoryKind::activations);
  memory.declare(arena, units, {.order = arch::backward_order(map)});
  EXPECT_EQ(memory.places.size(), 1U) << "units take turns";
  support::Machine machine(1);
  Ledger ledger;
  arena.commit(*machine.runtime, ledger);
  Given given(units);
  AuditedGradients gradients(given, memory, units, map, *machine.ops);
  const CounterRng random(1, "flips");
  const auto pass = [&](AuditedGradients::Passes passes, std::optional<int> flipped) {
    gradients.listen(passes);
    const std::size_t in = flipped ? random.below(units.size(), static_cast<std::uint64_t>(3 * *flipped)) : 0;
    std::string changed;
    for (const UnitIndex unit : arch::backward_order(map)) {
      const auto u = static_cast<std::size_t>(unit.value);
      const Tensor flat = gradients.open(unit, Microbatch{0}).flat;
      for (const layout::PlacedParameter& placed : units[u].parameters) {
        const Tensor part = flat.flat(placed.offset, placed.shape().elements());
        std::ranges::generate(elements<float>(part), [&, i = 0]() mutable { return std::sin(static_cast<float>(++i)); });
      }
      if (flipped && u == in && !units[u].parameters.empty()) {
        const auto n = static_cast<std::uint64_t>(3 * *flipped);
        const auto& placed = units[u].parameters[random.below(units[u].parameters.size(), n + 1)];
        flip(flat.flat(placed.offset, placed.shape().elements()), random.word64(n + 2));
        changed = placed.info.name;
      }
      gradients.close(unit, Microbatch{0});
    }
    return changed;
  };
  pass(AuditedGradients::Passes::own, std::nullopt);
  const std::vector<std::int64_t> own = gradients.sums(AuditedGradients::Passes::own);
  for (int n = 0; n < 1000; ++n) {
    const std::string changed = pass(AuditedGradients::Passes::again, n);
    const std::vector<std::int64_t>& again = gradients.sums(AuditedGradients::Passes::again);
    std::string found;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i] != again[i]) found += gradients.name(i);
    }
    EXPECT_EQ(found, changed);
  }
}

TEST(Audit, WhatCannotBeAuditedSaysWhy) {
  const auto obstacle = [](const char* layout) {
    return audit_obstacle(LayoutRun{.layout = layout}.config()).value_or(Problem{}).message;
  };
  EXPECT_EQ(obstacle("dp=2"), "");
  EXPECT_NE(obstacle("pp=2,gas=2").find("one replica (parallel.dp = 1)"), std::string::npos);
  EXPECT_NE(obstacle("dp=2,canonical,gas=2").find("in canonical mode"), std::string::npos);
  EXPECT_NE(obstacle("dp=2,pp=2,gas=4,schedule=zb-h1").find("a second micro-batch"), std::string::npos);
  EngineConfig servers = LayoutRun{.layout = "dp=2"}.config();
  servers.servers = ParameterServers{};
  EXPECT_NE(audit_obstacle(servers)->message.find("parameter servers"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
