// A lease may be a collective: whatever the ranks have to do, they take the same ones.

#include <gtest/gtest.h>

#include "comm/thread/thread_world.h"
#include "data/loader.h"
#include "io/file.h"
#include "support/checking_store.h"
#include "support/schedules.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"
#include "train/replicas.h"
#include "train/report/history.h"
#include "train/text_loss.h"
#include "train/texts/texts.h"
#include "train/trainer.h"

namespace lockstep::train {
namespace {

using layout::LeaseSize;
using support::StoreCall;
using support::StoreRecords;

/// Tokens are letters; one of them ends a text.
class Letters final : public data::Tokenizer {
 public:
  static constexpr std::int32_t end = 7;
  std::string_view name() const override { return "letters"; }
  std::int64_t vocabulary() const override { return 16; }
  Json describe() const override { return Json::Object{}; }
  std::string tokenizer_json() const override { return {}; }
  std::string_view bytes(std::int32_t id) const override {
    return std::string_view("abcdefghijklmnop").substr(static_cast<std::size_t>(id), 1);
  }
  std::optional<std::int32_t> end_of_text() const override { return end; }

 private:
  std::size_t do_encode(std::string_view text, std::int32_t* ids, std::string& /*unknown*/, bool /*goes_on*/) const override {
    for (const char letter : text) *ids++ = letter - 'a';
    return text.size();
  }
};

constexpr std::array lease_sizes{LeaseSize::block, LeaseSize::sub_layer};

EngineConfig config_of(LeaseSize leases = LeaseSize::block) {
  EngineConfig config = support::tiny_config();
  config.model.vocabulary = Letters().vocabulary();
  config.plan.leases = leases;
  return config;
}

/// A file of tokens in a folder of its own.
struct TextFile {
  explicit TextFile(std::int64_t tokens) {
    std::string bytes;
    for (std::int64_t i = 0; i < tokens; ++i) bytes += {static_cast<char>(i * i % 16), '\0'};
    io::replace_file(folder.path() / "text.bin", bytes);
  }
  data::TokenFile open() const { return {folder.path() / "text.bin", {.token_bytes = 2, .vocabulary = 16}}; }
  TempFolder folder;
};

/// What one rank computes with.
struct Rank {
  explicit Rank(comm::Communicator& ranks, LeaseSize leases = LeaseSize::block)
      : world(ranks),
        runtime(open_runtime({}, {.threads = 1})),
        stream(runtime->make_stream()),
        ops(ops::make_ops(*runtime, *stream, {})),
        groups(ranks, layout::Mesh({.dp = ranks.size(), .leases = leases, .ranks_per_host = ranks.size()})) {
    world.attach(*stream, runtime->team());
  }
  template <class Part>
  void commit(Part& part) {
    part.declare(workspace, cache);
    Ledger ledger;
    for (Arena* arena : {&workspace, &cache}) arena->commit(*runtime, ledger);
  }
  comm::Communicator& world;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
  parallel::Groups groups;
  Arena workspace{"workspace", MemoryKind::workspace}, cache{"cache", MemoryKind::workspace};
};

/// A checkpoint of start values.
io::Path saved_model(const io::Path& folder) {
  io::Path at;
  support::Machine machine;
  const auto engine = support::make_engine(config_of(), machine);
  at = save_run(folder, *engine, {}, Json::Object{}, machine.runtime->team()).folder;
  return at;
}

/// Runs `body` on ranks that have a model for reading, from stores that are checked.
void with_readers(int ranks, LeaseSize leases, const io::Path& checkpoint, StoreRecords& records,
                  const std::function<void(Rank&, Inference&)>& body) {
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    Rank rank(world, leases);
    Inference model(config_of().model, DType::f32, *rank.runtime, *rank.ops, rank.groups, records.checked());
    model.load(*checkpoint::open_together(world, checkpoint), rank.runtime->team());
    body(rank, model);
  });
}

void expect_alike(const StoreRecords& records) {
  const auto leases = [](const support::StoreCalls& calls) {
    return std::ranges::count(calls, StoreCall::Kind::lease, &StoreCall::kind);
  };
  EXPECT_GT(leases(records.of(0)), 0);
  for (int rank = 1; rank < records.ranks(); ++rank) {
    EXPECT_EQ(leases(records.of(rank)), leases(records.of(0))) << "rank " << rank;
    EXPECT_TRUE(records.of(rank) == records.of(0)) << "rank " << rank;
  }
}

const UpdaterFactory replicas = [](const UpdaterParts& parts) { return std::make_unique<Replicas>(parts); };

/// A run that evaluates, writes text and saves on the way, and is read again; `stores` makes its stores.
TrainingHistory run_training(const EngineConfig& config, const TextFile& text, const io::Path& folder, Rank& rank,
                             const parallel::StoreFactory& stores) {
  support::RankEngine engine(config, *rank.runtime, *rank.ops, rank.world, replicas, stores);
  const data::TokenFile file = text.open();
  const data::LoaderShape shape{.samples = config.samples,
                                .positions = config.positions,
                                .microbatches = config.plan.microbatches,
                                .rank = rank.world.rank(),
                                .ranks = rank.world.size()};
  Arena batches("batches", MemoryKind::data);  // before the loader, whose thread reads ahead into it
  data::Loader loader(file, data::evaluation_sampler(file, config.positions, 1, "training"), shape);
  const auto windows = [&](std::int64_t count) {
    return data::WindowReader(file, data::evaluation_sampler(file, config.positions, 1, "val"), config.samples, config.positions,
                              count);
  };
  // Four batches, the last of one sample, and two: no multiples of three ranks.
  data::WindowReader train_text = windows(3 * config.samples + 1), val_text = windows(2 * config.samples);
  TextSampler sampler(engine.share());
  loader.declare(batches);
  train_text.declare(batches);
  val_text.declare(batches);
  Ledger ledger;
  batches.commit(rank.runtime->memory(Space::pinned), ledger);
  rank.commit(sampler);
  engine.commit();
  engine.initialise();
  engine.broadcast_state();
  const Letters letters;
  Log log(stderr, Level::critical);
  TrainerOptions options;
  options.max_iters = 3;
  options.eval_interval = options.checkpoint_interval = 2;
  options.sample.tokens = 9;
  options.prompt = "abc";
  options.folder = folder;
  options.watches = false;
  Trainer trainer(options, {engine, loader, train_text, val_text, sampler, &letters, rank.runtime->team(), log});
  TrainingHistory history;
  RunListeners listeners;
  listeners.push_back(std::make_unique<HistoryKeeper>(history));
  trainer.run({}, std::move(listeners));
  load_run(*checkpoint::open_together(rank.world, *history.checkpoint), engine, rank.world, rank.runtime->team());
  return history;
}

std::vector<TrainingHistory> train_on(int ranks, LeaseSize leases, const parallel::StoreFactory& stores) {
  const TextFile text(200);
  const TempFolder folder;
  std::vector<TrainingHistory> histories(static_cast<std::size_t>(ranks));
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    Rank rank(world);
    histories[static_cast<std::size_t>(world.rank())] = run_training(config_of(leases), text, folder.path(), rank, stores);
  });
  return histories;
}

TEST(Leases, OfTrainingAreAlikeOnEveryRank) {
  for (const int ranks : {1, 2, 3}) {
    const TrainingHistory plain = train_on(ranks, LeaseSize::block, parallel::make_parameter_store)[0];
    EXPECT_EQ(plain.validation.y.size(), 3U);
    EXPECT_EQ(plain.sample.size(), 12U);
    for (const LeaseSize leases : lease_sizes) {
      StoreRecords records(ranks);
      const std::vector<TrainingHistory> checked = train_on(ranks, leases, records.checked());
      expect_alike(records);
      EXPECT_EQ(checked[0].train.y, plain.train.y);
      EXPECT_EQ(checked[0].validation.y, plain.validation.y);
      EXPECT_EQ(checked[0].sample, plain.sample);
      for (std::size_t rank = 1; rank < checked.size(); ++rank) EXPECT_EQ(checked[rank].sample, "");
    }
  }
}

TEST(Leases, OfATextsLossAreAlikeOnEveryRank) {
  const TempFolder folder;
  const io::Path checkpoint = saved_model(folder.path());
  const TextFile text(4200);  // windows of one token at a time: five batches
  const data::TokenFile file = text.open();
  std::vector<TextLoss> results;
  std::vector<std::vector<float>> logits;
  for (const int ranks : {1, 2, 3}) {
    StoreRecords records(ranks);
    std::vector<float> values;
    std::int64_t windows = 0;
    const LeaseSize leases = ranks == 2 ? LeaseSize::sub_layer : LeaseSize::block;
    with_readers(ranks, leases, checkpoint, records, [&](Rank& rank, Inference& model) {
      TextLossRequest request{.length = 1, .logits = true};
      request.take_logits = [&](const Tensor& rows) { std::ranges::copy(elements<float>(rows), std::back_inserter(values)); };
      request.have_windows = [&](std::int64_t done) { windows = done; };
      const TextLoss result = loss_of_text(model, file, request, *rank.runtime);
      if (rank.world.rank() == 0) results.push_back(result);
    });
    expect_alike(records);
    EXPECT_EQ(windows, 4199);
    logits.push_back(values);
    EXPECT_EQ(results.back().loss, results.front().loss);
    EXPECT_EQ(results.back().tokens, 4199);
    EXPECT_EQ(logits.back(), logits.front());
    EXPECT_EQ(values.size(), 4199U * 16U);
  }
}

// Five texts of different lengths, some as long as they may be.
TEST(Leases, OfWritingTextsAreAlikeOnEveryRank) {
  const TempFolder folder;
  const io::Path checkpoint = saved_model(folder.path());
  const Letters letters;
  for (const bool ends : {true, false}) {
    TextsRequest request;
    request.texts = 5;
    request.prompt = {1, 2};
    request.sampling = {.tokens = 30, .temperature = 1, .top_k = 0};
    if (ends) request.ends = {Letters::end, 12};
    request.behind = "|";
    std::string alone;
    for (const int ranks : {1, 2, 3}) {
      StoreRecords records(ranks);
      std::string texts;
      const LeaseSize leases = ranks == 2 ? LeaseSize::sub_layer : LeaseSize::block;
      with_readers(ranks, leases, checkpoint, records, [&](Rank& rank, Inference& model) {
        TextSampler sampler(model.share());
        rank.commit(sampler);
        const Pace pace = write_texts(request, letters, sampler, model.groups(), [&](std::string_view text) { texts += text; });
        if (rank.world.rank() == 0 && !ends) {
          EXPECT_EQ(pace.tokens, 30);
        }
      });
      expect_alike(records);
      if (ranks == 1) alone = texts;
      EXPECT_EQ(texts, alone);
      EXPECT_EQ(std::ranges::count(texts, '|'), 5);
      EXPECT_EQ(texts.size() == 5 * 33, !ends);
    }
  }
}

/// Losses, norms and weights after three steps.
std::vector<float> learnt(const EngineConfig& config, const parallel::StoreFactory& stores) {
  support::Machine machine(1);
  support::RankEngine engine(config, *machine.runtime, *machine.ops, *machine.world, replicas, stores);
  engine.commit();
  engine.initialise();
  std::vector<float> all;
  for (int step = 0; step < 3; ++step) {
    const support::Batches batches(2, config.samples, config.positions, config.model.vocabulary, 5);
    const StepResult result = engine.step(batches.all(), batches.targets(), step, 1e-2);
    all.insert(all.end(), {static_cast<float>(result.loss), static_cast<float>(result.gradient_norm)});
  }
  for (const support::ParameterState& parameter : support::parameters_of(engine)) {
    const std::vector<float> values = support::values_of(parameter.weight);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// One sub-layer's weights are there at a time, and what is learnt has the bits of whole blocks' leases.
TEST(Leases, OfSubLayersHoldLessAndTeachTheSame) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()}) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
      for (const arch::DecayRule decay : {arch::DecayRule::matrices, arch::DecayRule::all}) {
        EngineConfig config = support::tiny_config(model);
        config.model.dropout = model.position == arch::PositionKind::rope ? 0 : 0.1F;
        config.weights = weights;
        config.decay = decay;
        config.plan.microbatches = 2;
        const std::vector<float> plain = learnt(config, parallel::make_parameter_store);
        const arch::UnitMap map = arch::unit_map(config.model);
        std::array<std::int64_t, 2> most{};
        for (const LeaseSize leases : lease_sizes) {
          config.plan.leases = leases;
          StoreRecords records(1);
          EXPECT_EQ(learnt(config, records.checked()), plain);
          most.at(static_cast<std::size_t>(leases)) = most_leased(records.of(0), map.blocks.front(), map.head);
        }
        EXPECT_GT(most[0], 0);
        EXPECT_LT(most[1], most[0] * 3 / 4);
      }
    }
  }
}

// Blocks that run again lease in the order that the store was told, whole or a sub-layer at a time, and hold no more.
TEST(Leases, OfRecomputationFollowTheOrderAndTeachTheSame) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
      EngineConfig config = support::tiny_config(model);
      config.model.layers = 3;
      config.model.dropout = 0.1F;
      config.weights = weights;
      config.plan.microbatches = 2;
      const std::vector<float> plain = learnt(config, parallel::make_parameter_store);
      const arch::UnitMap map = arch::unit_map(config.model);
      for (const LeaseSize leases : lease_sizes) {
        config.plan.leases = leases;
        config.plan.recompute = {};
        StoreRecords kept(1);
        EXPECT_EQ(learnt(config, kept.checked()), plain);
        for (const layout::Recompute& recompute : support::recomputations()) {
          SCOPED_TRACE(to_string(recompute));
          config.plan.recompute = recompute;
          StoreRecords records(1);
          EXPECT_EQ(learnt(config, records.checked()), plain);
          EXPECT_EQ(most_leased(records.of(0), map.blocks.front(), map.head),
                    most_leased(kept.of(0), map.blocks.front(), map.head));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train
