// Lists of actions on one rank and on two: equal bits in any of them, and the bytes that their slots need.

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <set>

#include "comm/thread/thread_world.h"
#include "support/schedules.h"
#include "support/tiny_engine.h"
#include "support/tiny_stages.h"

namespace lockstep::train {
namespace {

using layout::Action;
using layout::Chunk;
using support::action;
using support::Kind;

constexpr int microbatch_count = 4;
constexpr std::int64_t samples = 3, positions = 7, rows = samples * positions;

arch::ModelConfig model_of(bool llama) {
  arch::ModelConfig config = llama ? support::tiny_llama() : support::tiny_model();
  config.layers = 3;
  config.dropout = llama ? 0 : 0.1F;
  return config;
}

Chunk whole(const arch::ModelConfig& config) { return {.blocks = {0, config.layers}, .embedding = true, .head = true}; }
std::vector<Chunk> halves(const arch::ModelConfig& config) {
  return {{.blocks = {0, 1}, .embedding = true, .head = false},
          {.blocks = {1, config.layers - 1}, .embedding = false, .head = true}};
}

struct LearntByStages {
  double loss = 0;
  double evaluated = 0;  ///< of two batches
  std::map<std::string, std::vector<float>> gradients;
  std::vector<float> rows;  ///< of the token table
  std::int64_t activation_bytes = 0, workspace_bytes = 0;
};

void step(support::TinyStages& model, PipelineRunner& runner, LearntByStages& learnt) {
  float scale = 1.0F / (microbatch_count * rows);
  const support::Batches batches(microbatch_count, samples, positions, 65);
  model.gradients.begin(microbatch_count);
  std::vector<double> losses(microbatch_count);
  runner.run(batches.all(), 0, {view(std::span(losses), Shape{microbatch_count}), view(std::span(&scale, 1), Shape{1})});
  learnt.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  learnt.gradients = model.named_gradients();
  const std::span<float> table = elements<float>(model.gradients.rows());
  learnt.rows = {table.begin(), table.end()};
}

void evaluate(PipelineRunner& runner, LearntByStages& learnt) {
  const support::Batches batches(2, samples, positions, 65, 9);
  for (const data::Batch& batch : batches.all()) runner.evaluate(batch, view(std::span(&learnt.evaluated, 1), Shape{1}));
}

LearntByStages learn(const arch::ModelConfig& config, const std::vector<Chunk>& chunks, const std::vector<Action>& actions,
                     const support::TinyLayout& layout = {}) {
  support::Machine machine(1);
  support::TinyStages model(config, {samples, positions}, chunks, actions, microbatch_count, machine, layout);
  PipelineRunner runner(actions, model.memory, model.stages);
  LearntByStages learnt{.loss = 0,
                        .evaluated = 0,
                        .gradients = {},
                        .rows = {},
                        .activation_bytes = model.activations.bytes(),
                        .workspace_bytes = model.workspace.bytes()};
  for (int again = 0; again < 2; ++again) step(model, runner, learnt);
  evaluate(runner, learnt);
  for (std::size_t u = 0; u < model.parameters.units().size(); ++u) {
    EXPECT_EQ(model.gradients.closed(UnitIndex{static_cast<int>(u)}), microbatch_count);
  }
  return learnt;
}

void expect_equal(const LearntByStages& a, const LearntByStages& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.evaluated, b.evaluated);
  EXPECT_EQ(a.rows, b.rows);
  for (const auto& [name, gradient] : b.gradients) EXPECT_EQ(a.gradients.at(name), gradient) << name;
}

std::int64_t rounded(std::int64_t floats) { return (floats * 4 + 63) / 64 * 64; }

/// What slots of a chunk of `blocks` blocks take, from the sizes alone.
std::int64_t bytes_of(const arch::ModelConfig& c, const layout::ChunkLives& lives, std::int64_t blocks, bool embedding,
                      const layout::Recompute& recompute = {}) {
  const layout::ShardedDims dims = arch::whole_dims(c);
  const std::int64_t stream = rounded(rows * dims.width);
  const std::int64_t kept = 2 * rounded(rows * 2) + rounded(rows * dims.qkv_width()) + rounded(rows * dims.heads) + stream;
  const std::int64_t attention = rounded(rows * dims.attention_width()), up = rounded(rows * dims.up_width());
  const std::int64_t deferred = 4 * stream + rounded(rows * dims.qkv_width()) + rounded(rows * dims.up_width());
  const std::int64_t inputs = (blocks - (embedding ? 0 : 1)) * stream;
  const std::int64_t handed = (lives.inputs + lives.outputs + lives.gradients) * stream;
  using enum layout::Recompute::Kind;
  if (recompute.kind == none) {
    return lives.kept * (blocks * kept + inputs) + lives.activated * blocks * (attention + up) +
           lives.deferred * blocks * deferred + handed;
  }
  if (recompute.kind == selective) {
    return lives.kept * (blocks * kept + inputs) + lives.activated * blocks * attention +
           lives.deferred * blocks * (deferred + up) + handed;
  }
  const std::int64_t starts = (blocks + recompute.every - 1) / recompute.every - (embedding ? 0 : 1);
  return lives.kept * starts * stream + lives.deferred * blocks * (deferred + attention + up) + handed;
}

/// What blocks make again, as many as are run again together.
std::int64_t bytes_again(const arch::ModelConfig& c, const layout::Recompute& recompute, std::int64_t blocks) {
  const layout::ShardedDims dims = arch::whole_dims(c);
  const std::int64_t stream = rounded(rows * dims.width), up = rounded(rows * dims.up_width());
  if (recompute.kind == layout::Recompute::Kind::selective) return up;
  const std::int64_t together = std::min<std::int64_t>(blocks, recompute.every);
  const std::int64_t block = 2 * rounded(rows * 2) + rounded(rows * dims.qkv_width()) + rounded(rows * dims.heads) + stream +
                             rounded(rows * dims.attention_width()) + up;
  return together * block + (together - 1) * stream;
}

TEST(Schedules, OnOneRankTheyGiveEqualBitsInTheBytesOfTheirSlots) {
  for (const bool llama : {false, true}) {
    const arch::ModelConfig config = model_of(llama);
    const LearntByStages plain = learn(config, {whole(config)}, support::in_turn(microbatch_count));
    for (const std::vector<Action>& actions :
         {support::in_turn(microbatch_count), support::gpipe(microbatch_count), support::running_ahead(microbatch_count, 2),
          support::late_weights(microbatch_count, 0), support::late_weights(microbatch_count, 2),
          support::all_apart(microbatch_count)}) {
      const LearntByStages other = learn(config, {whole(config)}, actions);
      expect_equal(other, plain);
      const layout::ChunkLives lives = layout::lives_of(actions, {whole(config)}, microbatch_count).front();
      EXPECT_EQ(other.activation_bytes, bytes_of(config, lives, config.layers, true));
    }
  }
}

TEST(Schedules, DeferredWeightGradientsNeedNoPlaceAmongTheTemporaries) {
  const arch::ModelConfig config = model_of(false);
  const LearntByStages plain = learn(config, {whole(config)}, support::in_turn(microbatch_count));
  EXPECT_LE(learn(config, {whole(config)}, support::all_apart(microbatch_count)).workspace_bytes, plain.workspace_bytes);
}

TEST(Schedules, TwoChunksOfOneRankGiveTheBitsOfOne) {
  for (const bool llama : {false, true}) {
    const arch::ModelConfig config = model_of(llama);
    const LearntByStages plain = learn(config, {whole(config)}, support::in_turn(microbatch_count));
    for (const int live : {1, 2, 4}) {
      for (const bool late : {false, true}) {
        const std::vector<Action> actions = support::two_chunks(microbatch_count, live, late);
        const LearntByStages two = learn(config, halves(config), actions);
        expect_equal(two, plain);
        const std::vector<layout::ChunkLives> lives = layout::lives_of(actions, halves(config), microbatch_count);
        EXPECT_EQ(two.activation_bytes,
                  bytes_of(config, lives[0], 1, true) + bytes_of(config, lives[1], config.layers - 1, false));
      }
    }
  }
}

TEST(Recomputation, GivesEqualBitsInAnyListInTheBytesOfWhatIsKept) {
  for (const bool llama : {false, true}) {
    const arch::ModelConfig config = model_of(llama);
    for (const DType type : {DType::f32, DType::bf16}) {
      const LearntByStages plain = learn(config, {whole(config)}, support::in_turn(microbatch_count), {.type = type});
      for (const std::vector<Action>& actions :
           {support::in_turn(microbatch_count), support::gpipe(microbatch_count), support::running_ahead(microbatch_count, 1),
            support::late_weights(microbatch_count, 2), support::all_apart(microbatch_count)}) {
        const layout::ChunkLives lives = layout::lives_of(actions, {whole(config)}, microbatch_count).front();
        for (const layout::Recompute& recompute : support::recomputations()) {
          SCOPED_TRACE(to_string(recompute));
          const LearntByStages again = learn(config, {whole(config)}, actions, {.type = type, .recompute = recompute});
          expect_equal(again, plain);
          if (type == DType::bf16) continue;
          EXPECT_EQ(again.activation_bytes,
                    bytes_of(config, lives, config.layers, true, recompute) + bytes_again(config, recompute, config.layers));
        }
      }
    }
  }
}

TEST(Recomputation, OfTwoChunksSharesOnePlace) {
  const arch::ModelConfig config = model_of(false);
  const LearntByStages plain = learn(config, {whole(config)}, support::in_turn(microbatch_count));
  for (const layout::Recompute& recompute : support::recomputations()) {
    for (const bool late : {false, true}) {
      const std::vector<Action> actions = support::two_chunks(microbatch_count, 2, late);
      const std::vector<layout::ChunkLives> lives = layout::lives_of(actions, halves(config), microbatch_count);
      const LearntByStages two = learn(config, halves(config), actions, {.recompute = recompute});
      expect_equal(two, plain);
      EXPECT_EQ(two.activation_bytes, bytes_of(config, lives[0], 1, true, recompute) +
                                          bytes_of(config, lives[1], config.layers - 1, false, recompute) +
                                          bytes_again(config, recompute, config.layers - 1));
    }
  }
}

/// The list with each gradient of weights behind the next micro-batch's input gradient.
std::vector<Action> with_late_weights(const std::vector<Action>& actions) {
  std::vector<Action> late;
  std::set<int> chunks;
  for (Action each : actions) {
    const int m = each.microbatch.value;
    chunks.insert(each.chunk);
    if (each.kind == Kind::weight_backward) continue;
    if (each.kind == Kind::backward) each.kind = Kind::input_backward;
    late.push_back(each);
    if (each.kind == Kind::input_backward && m > 0) late.push_back(action(Kind::weight_backward, m - 1, each.chunk));
  }
  for (const int chunk : chunks) late.push_back(action(Kind::weight_backward, microbatch_count - 1, chunk));
  return late;
}

/// The rank whose chunk has the parameter.
std::size_t rank_of(const std::string& parameter, const arch::ModelConfig& config, const layout::StageMap& map) {
  constexpr std::string_view block = "transformer.h.";
  int stage = map.stages() - 1;
  if (parameter.starts_with(block)) {
    const int number = std::stoi(parameter.substr(block.size()));
    stage = 0;
    while (layout::part_of(config.layers, stage, map.stages()).end() <= number) ++stage;
  }
  return static_cast<std::size_t>(map.rank_of(stage));
}

layout::PipelineShape shape_of(const layout::NamedSchedule& schedule, int ranks) {
  return {.ranks = ranks, .chunks = usual_chunks(schedule, ranks), .microbatches = microbatch_count};
}

/// What each rank of a pipeline learns from two steps, between which it evaluates.
std::vector<LearntByStages> learn_in_pipeline(const arch::ModelConfig& config, const layout::NamedSchedule& schedule, int ranks,
                                              bool late, const layout::Recompute& recompute = {}) {
  const layout::StageMap map = stage_map(schedule, shape_of(schedule, ranks));
  const std::vector<std::vector<Action>> lists = actions_of(schedule, shape_of(schedule, ranks));
  std::vector<LearntByStages> learnt(static_cast<std::size_t>(ranks));
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    support::Machine machine(1);
    group.attach(*machine.stream, machine.runtime->team());
    const std::vector<Action> actions = late ? with_late_weights(lists[rank]) : lists[rank];
    const std::vector<Chunk> chunks = chunks_of(map, group.rank(), config.layers);
    support::TinyStages model(config, {samples, positions}, chunks, actions, microbatch_count, machine, {.recompute = recompute});
    PipelineRunner runner(actions, model.memory, model.stages, {.group = &group, .chunks = map.neighbours_of(group.rank())});
    LearntByStages& mine = learnt[rank];
    step(model, runner, mine);
    evaluate(runner, mine);
    step(model, runner, mine);
  });
  return learnt;
}

void expect_pipeline_equal(const std::vector<LearntByStages>& learnt, const LearntByStages& plain,
                           const arch::ModelConfig& config, const layout::StageMap& map) {
  const int head = map.rank_of(map.stages() - 1);
  for (int rank = 0; rank < map.ranks(); ++rank) {
    const LearntByStages& own = learnt[static_cast<std::size_t>(rank)];
    EXPECT_EQ(own.loss, rank == head ? plain.loss : 0) << "rank " << rank;
    EXPECT_EQ(own.evaluated, rank == head ? plain.evaluated : 0) << "rank " << rank;
  }
  EXPECT_EQ(learnt.front().rows, plain.rows);
  for (const auto& [name, gradient] : plain.gradients) {
    if (name == "transformer.wte.weight") continue;  // its rows, above
    EXPECT_EQ(learnt[rank_of(name, config, map)].gradients.at(name), gradient) << name;
  }
}

/// Calls `each` for every schedule on so many ranks.
template <class Each>
void for_each_schedule(int ranks, const Each& each) {
  for (const layout::NamedSchedule& schedule : layout::schedules()) {
    if (!check(schedule, shape_of(schedule, ranks)).empty()) continue;
    SCOPED_TRACE(testing::Message() << schedule.name << ", " << ranks << " ranks");
    each(schedule, stage_map(schedule, shape_of(schedule, ranks)));
  }
}

TEST(Schedules, RanksOfAPipelineLearnTheBitsOfOne) {
  arch::ModelConfig config = model_of(true);
  config.layers = 6;
  const LearntByStages plain = learn(config, {whole(config)}, support::in_turn(microbatch_count));
  for (const auto& [ranks, late] : {std::pair{2, false}, {2, true}, {3, false}}) {
    for_each_schedule(ranks, [&](const layout::NamedSchedule& schedule, const layout::StageMap& map) {
      SCOPED_TRACE(testing::Message() << "late weights: " << late);
      expect_pipeline_equal(learn_in_pipeline(config, schedule, ranks, late), plain, config, map);
    });
  }
}

TEST(Recomputation, InAPipelineTeachesTheBitsOfOneRank) {
  arch::ModelConfig config = model_of(true);
  config.layers = 5;
  const LearntByStages plain = learn(config, {whole(config)}, support::in_turn(microbatch_count));
  for_each_schedule(2, [&](const layout::NamedSchedule& schedule, const layout::StageMap& map) {
    for (const bool late : {false, true}) {
      for (const layout::Recompute& recompute : support::recomputations()) {
        SCOPED_TRACE(testing::Message() << to_string(recompute) << ", late weights: " << late);
        expect_pipeline_equal(learn_in_pipeline(config, schedule, 2, late, recompute), plain, config, map);
      }
    }
  });
}

TEST(Schedules, EvaluationGoesThroughAllChunks) {
  const arch::ModelConfig config = model_of(false);
  support::Machine machine(1);
  const std::vector<Action> actions = support::two_chunks(microbatch_count, 2);
  support::TinyStages two(config, {samples, positions}, halves(config), actions, microbatch_count, machine);
  PipelineRunner runner(actions, two.memory, two.stages);
  const std::vector<Action> plain = support::in_turn(microbatch_count);
  support::TinyStages one(config, {samples, positions}, {whole(config)}, plain, microbatch_count, machine);
  const support::Batches batches(1, samples, positions, 65);
  double of_two = 0, of_one = 0;
  runner.evaluate(batches.all()[0], view(std::span(&of_two, 1), Shape{1}));
  PipelineRunner(plain, one.memory, one.stages).evaluate(batches.all()[0], view(std::span(&of_one, 1), Shape{1}));
  EXPECT_EQ(of_two, of_one);
  EXPECT_GT(of_one, 0);
}

}  // namespace
}  // namespace lockstep::train
