// The verdict on dumps of other systems' steps. LOCKSTEP_WRONG_WAYS=all makes every mistake in more models (make parity).

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "lab/against_dumps.h"

namespace lockstep::lab::against {
namespace {

class AgainstModel : public testing::TestWithParam<const char*> {};
class AgainstWays : public AgainstModel {};

TEST_P(AgainstModel, RightRunsAgreeInEveryType) {
  struct Type {
    const char *dtype, *stored;
    int bits;
  };
  for (const Type& type : {Type{"fp32", "F32", 23}, Type{"tf32", "F32", 10}, Type{"bf16", "BF16", 7}, Type{"bf16", "F32", 7}}) {
    for (const std::uint64_t seed : {11U, 12U, 13U}) {
      MadeStep step(GetParam());
      step.right.facts.dtype = type.dtype;
      const Rounding rounding{type.bits, 0, seed};
      const Judgement judgement = step.judged(step.tensors(step.right, &rounding, type.stored));
      EXPECT_EQ(first_wrong(judgement), "") << type.dtype << " in " << type.stored;
      EXPECT_GT(judgement.judged, 40U);
    }
  }
}

/// Whether a wrong step differs from the right one at all, in this model.
bool differs(const Tensors& a, const Tensors& b) {
  return std::ranges::any_of(a, [&](const auto& one) {
    const Values &left = one.second.values, &right = b.at(one.first).values;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (std::abs(left[i] - right[i]) > 1e-4 * (std::abs(right[i]) + 1e-3)) return true;
    }
    return false;
  });
}

/// A step in which every way has something to do.
MadeStep rich_step(const char* model) {
  MadeStep step(model, 4, 8);
  Facts& facts = step.right.facts;
  facts.tp = facts.cp = 2;
  facts.loss_scale = 8;
  facts.clip = 0.01;
  Batch& batch = step.right.question.batch;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    batch.documents[i] = i % 8 < 5 ? 0 : 1;
    batch.positions[i] = static_cast<std::int64_t>(i % 8 < 5 ? i % 8 : i % 8 - 5);
  }
  return step;
}

/// Whether the way changes anything in this step; then it must be named.
bool is_named(const MadeStep& step, const Tensors& right, const Way& way, double value) {
  Case wrong = step.right;
  way.change(wrong, value);
  if (!differs(step.tensors(wrong), right)) return false;
  // A norm behind a branch takes away by how much all of the branch is longer.
  if (wrong.question.config.post_norm && way.word == "tp-sum-twice-and-back") return false;
  const Rounding rounding{23, 0, 17};
  const Judgement judgement = step.judged(step.tensors(wrong, &rounding));
  const std::vector<Cause> causes = judgement.faults.empty() ? std::vector<Cause>{} : judgement.faults.front().causes;
  EXPECT_GE(std::ranges::count(causes, way.word, &Cause::word), 1)
      << way.word << " " << value << ", first wrong: " << first_wrong(judgement);
  return true;
}

TEST_P(AgainstWays, EveryWrongWayIsNamed) {
  const std::string model = GetParam();
  if ((model == "llama_tied" || model == "gemma3") && std::getenv("LOCKSTEP_WRONG_WAYS") == nullptr)
    GTEST_SKIP() << "LOCKSTEP_WRONG_WAYS=all (make parity)";
  const MadeStep step = rich_step(GetParam());
  const Tensors right = step.tensors(step.right);
  ASSERT_EQ(first_wrong(step.judged(right)), "");
  int named = 0;
  for (const Way& way : all_ways()) {
    const std::vector<double> values = way.values(step.right);
    if (!values.empty()) named += is_named(step, right, way, values.back()) ? 1 : 0;
  }
  EXPECT_GE(named, 40);
}

INSTANTIATE_TEST_SUITE_P(Published, AgainstModel,
                         testing::Values("gpt2", "llama_tied", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "smollm3"),
                         [](const auto& one) { return std::string(one.param); });
INSTANTIATE_TEST_SUITE_P(Published, AgainstWays, testing::Values("gpt2", "llama_tied", "gemma2", "gemma3"),
                         [](const auto& one) { return std::string(one.param); });

TEST(Against, ABucketThatWasNotReducedIsNamedWithItsTensors) {
  const MadeStep step("gpt2");
  Case alone = step.right;
  const auto way = std::ranges::find(all_ways(), "one-rank", &Way::word);
  way->change(alone, 1);
  Tensors tensors = step.tensors(step.right);
  const Tensors of_rank = step.tensors(alone);
  const std::string bucket = "gradient.transformer.h.0.mlp.c_fc.weight";
  tensors[bucket] = of_rank.at(bucket);
  for (auto it = tensors.begin(); it != tensors.end();)
    it = it->first == "norm" || it->first.starts_with("slot") || it->first.starts_with("weight") ? tensors.erase(it)
                                                                                                 : std::next(it);
  const Judgement judgement = step.judged(tensors);
  ASSERT_EQ(words_of(judgement), std::vector<std::string>{"one-rank"});
  const Cause& cause = judgement.faults.front().causes.front();
  EXPECT_EQ(cause.only, std::vector<std::string>{bucket});
  EXPECT_NE(cause.sentence.find("dp rank 1"), std::string::npos) << cause.sentence;
}

TEST(Against, AFaultOfThePassesAndOneOfTheUpdateAreToldApart) {
  const MadeStep step("gpt2");
  Case wrong = step.right;
  for (const char* word : {"times-dp", "no-decay"}) std::ranges::find(all_ways(), word, &Way::word)->change(wrong, 2);
  const Judgement judgement = step.judged(step.tensors(wrong));
  EXPECT_EQ(words_of(judgement), (std::vector<std::string>{"times-dp", "no-decay"}));
}

TEST(Against, WithoutGradientsTheWeightsTellWhatWasWrongInThePasses) {
  const MadeStep step("gpt2");
  Case wrong = step.right;
  wrong.question.ways.sees_ahead = 1;
  Tensors tensors = step.tensors(wrong);
  std::erase_if(tensors,
                [](const auto& one) { return one.first.starts_with("gradient") || one.first.starts_with("activation"); });
  tensors.erase("loss");
  EXPECT_EQ(words_of(step.judged(tensors)), std::vector<std::string>{"sees-next"});
}

TEST(Against, AdamsDecayIsRightWhereTheFactsSaySo) {
  for (const char* decay : {"matrices", "all", ""}) {
    MadeStep step("gpt2");
    step.right.facts.decay_in_gradient = true;
    step.right.facts.decay = decay;
    EXPECT_EQ(first_wrong(step.judged(step.tensors(step.right))), "") << decay;
    Case wrong = step.right;
    std::ranges::find(all_ways(), "decay-beside-gradient", &Way::word)->change(wrong, 0);
    EXPECT_EQ(words_of(step.judged(step.tensors(wrong))), std::vector<std::string>{"decay-beside-gradient"}) << decay;
  }
  MadeStep step("gpt2");  // gains and biases decay too, and nothing says whether they should
  step.right.facts.decay_in_gradient = true;
  step.right.facts.decay = "all";
  const Tensors all = step.tensors(step.right);
  step.right.facts.decay = "";
  EXPECT_EQ(first_wrong(step.judged(all)), "");
}

TEST(Against, AnUnknownFaultIsSaidToBeUnknown) {
  const MadeStep step("gpt2");
  Tensors tensors = step.tensors(step.right);
  Values& values = tensors.at("gradient.transformer.h.0.attn.c_proj.weight").values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.01 * static_cast<double>(i % 7);
  const Judgement judgement = step.judged(tensors);
  EXPECT_EQ(words_of(judgement).front(), "none");
  EXPECT_GT(judgement.faults.front().tried, 40U);
}

TEST(Against, AFlippedBitIsFound) {
  for (const char* dtype : {"F32", "BF16"}) {
    MadeStep step("gpt2");
    step.right.facts.dtype = std::string(dtype) == "F32" ? "fp32" : "bf16";
    Tensors tensors = step.tensors(step.right, nullptr, dtype);
    double& value = tensors.at("gradient.transformer.h.0.mlp.c_fc.weight").values[100];
    const float stored =
        dtype == std::string("F32") ? static_cast<float>(value) : to_float(to_bfloat16(static_cast<float>(value)));
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(stored) ^ 1U << 30U);
    const Judgement judgement = step.judged(tensors);
    ASSERT_EQ(words_of(judgement).front(), "flipped-bit");
    EXPECT_NE(judgement.faults.front().causes.front().sentence.find("at [1, 4]"), std::string::npos)
        << judgement.faults.front().causes.front().sentence;
  }
}

TEST(Against, OtherTokensAndDropoutAreSeenBehindTheEmbedding) {
  const MadeStep step("gpt2");
  Case other = step.right;
  other.question.batch.tokens[5] = 17;
  const Judgement tokens = step.judged([&] {
    Tensors made = step.tensors(other);
    made["tokens"] = step.tensors(step.right).at("tokens");
    return made;
  }());
  ASSERT_EQ(words_of(tokens).front(), "other-tokens");
  EXPECT_NE(tokens.faults.front().causes.front().sentence.find("at [0, 5] 17 and not"), std::string::npos);

  Tensors dropped = step.tensors(step.right);
  Values& values = dropped.at("activation.transformer.drop").values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i * 7919 % 10 == 0 ? 0 : 1 / 0.9;
  const Judgement dropout = step.judged(dropped);
  EXPECT_EQ(words_of(dropout).front(), "dropout");
}

/// The right gradients of the rows for which `takes` holds.
std::map<std::string, Values> gradients_of(const MadeStep& step, const std::function<bool(std::int64_t)>& takes) {
  Question part = step.right.question;
  for (std::int64_t i = 0; i < std::ssize(part.shares); ++i) {
    if (!takes(i / part.batch.columns)) part.shares[static_cast<std::size_t>(i)] = 0;
  }
  const Walked walked = walk(part);
  std::map<std::string, Values> gradients;
  const Names names = step.names();
  for (const auto& [name, meaning] : names.parameters()) gradients[name] = meaning.published(walked.gradients[meaning.index]);
  return gradients;
}
void clip(const MadeStep& step, std::map<std::string, Values>& gradients) {
  const double factor = clip_factor(MadeStep::norm_of(gradients, step.right, step.names()), step.right.facts);
  for (auto& [name, values] : gradients) {
    for (double& value : values) value *= factor;
  }
}

TEST(Against, AGradientThatIsClippedBeforeItIsWholeIsNamed) {
  MadeStep step("gpt2");  // rows 0 and 1 are dp rank 0's, each a micro-batch
  step.right.facts.clip = 0.05;
  const std::map<std::string, std::function<void(std::map<std::string, Values>&)>> programs{
      {"clipped-by-rank",
       [&](auto& sum) {
         for (const std::int64_t rank : {0, 1}) {
           auto part = gradients_of(step, [=](std::int64_t row) { return row / 2 == rank; });
           clip(step, part);
           for (auto& [name, values] : part) std::ranges::transform(values, sum[name], sum[name].begin(), std::plus<>());
         }
       }},
      {"clipped-so-far", [&](auto& sum) {
         for (const std::int64_t micro : {0, 1}) {
           auto part = gradients_of(step, [=](std::int64_t row) { return row % 2 == micro; });
           for (auto& [name, values] : part) std::ranges::transform(values, sum[name], sum[name].begin(), std::plus<>());
           clip(step, sum);
         }
       }}};
  for (const auto& [word, program] : programs) {
    std::map<std::string, Values> sum = gradients_of(step, [](std::int64_t) { return false; });
    program(sum);
    Tensors tensors = step.tensors(step.right);
    std::erase_if(tensors, [](const auto& one) {
      return one.first == "norm" || one.first.starts_with("slot") || one.first.starts_with("weight");
    });
    for (const auto& [name, values] : sum) tensors.at("gradient." + name).values = values;
    EXPECT_EQ(words_of(step.judged(tensors)), std::vector<std::string>{word});
  }
}

TEST(Against, FrozenParametersAreNeitherInTheNormNorChanged) {
  const MadeStep step("llama_tied");
  const std::string frozen = "model.layers.0.mlp.up_proj.weight";
  auto gradients = gradients_of(step, [](std::int64_t) { return true; });
  gradients.erase(frozen);
  const double norm = MadeStep::norm_of(gradients, step.right, step.names());
  Tensors tensors = step.tensors(step.right);
  const Names names = step.names();
  for (const auto& [name, values] : gradients) {
    const ParameterMeaning& meaning = *names.parameter(name);
    const Values zeros(values.size()), before = meaning.published((*step.right.question.weights)[meaning.index]);
    const After after =
        update({before, values, zeros, zeros, meaning.decays}, step.right.facts, {}, clip_factor(norm, step.right.facts));
    tensors["slot.exp_avg." + name].values = after.exp_avg;
    tensors["slot.exp_avg_sq." + name].values = after.exp_avg_sq;
    tensors["weight." + name].values = after.weights;
  }
  tensors["norm"].values = {norm};
  for (const char* kind : {"gradient.", "slot.exp_avg.", "slot.exp_avg_sq."}) tensors.erase(kind + frozen);
  const ParameterMeaning& meaning = *names.parameter(frozen);
  Values& weights = tensors["weight." + frozen].values;
  weights = meaning.published((*step.right.question.weights)[meaning.index]);
  Json json = step.json();
  json.set("frozen", Json::Array{frozen});
  EXPECT_EQ(first_wrong(MadeStep::judged(tensors, json)), "");
  weights[3] += 0.01;
  EXPECT_EQ(first_wrong(MadeStep::judged(tensors, json)), "weight." + frozen);
}

TEST(Against, AHeadThatIsNoLongerTiedIsNamed) {
  const MadeStep step("llama_tied");
  Tensors tensors = step.tensors(step.right);
  tensors.at("activation.lm_head").values[7] += 0.5;
  tensors.at("activation.lm_head").values[9] -= 0.5;
  tensors["weight.lm_head.weight"] = tensors.at("weight.model.embed_tokens.weight");
  EXPECT_EQ(words_of(step.judged(tensors)).front(), "head-untied");
}

TEST(Against, WhatComesOutAtPaddingIsNotJudged) {
  MadeStep step("llama");
  std::vector<std::int64_t>& documents = step.right.question.batch.documents;
  for (std::size_t i = 0; i < documents.size(); ++i) documents[i] = i % 12 < 9 ? 0 : -1;
  std::vector<std::int64_t>& targets = step.right.question.batch.targets;
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = i % 12 < 8 ? targets[i] : -100;
  share_alike(step.right.question);
  Tensors tensors = step.tensors(step.right);
  const std::string module = "activation.model.layers.0";
  Written& activation = tensors.at(module);
  const auto width = static_cast<std::size_t>(activation.shape.back());
  activation.values[width * 10] += 7;
  EXPECT_EQ(first_wrong(step.judged(tensors)), "");
  activation.values[width * 8] += 7;
  EXPECT_EQ(first_wrong(step.judged(tensors)), module);
}

// Rank r's file has the samples of rank r, and whole gradients.
void write_rank(const MadeStep& step, const TempFolder& folder, std::int64_t rank, Tensors tensors, bool other = false) {
  Json::Object slices;
  for (auto& [name, tensor] : tensors) {
    if (name != "tokens" && name != "targets" && !name.starts_with("activation.")) continue;
    const auto half = static_cast<std::ptrdiff_t>(tensor.values.size() / 2);
    tensor.values = Values(tensor.values.begin() + rank * half, tensor.values.begin() + (rank + 1) * half);
    tensor.shape[0] /= 2;
    Json::Array places{Json::Array{rank * 2, rank * 2 + 2}};
    for (std::size_t d = 1; d < tensor.shape.size(); ++d) places.emplace_back(Json::Array{0, tensor.shape[d]});
    slices.emplace_back(name, std::move(places));
  }
  Json json = step.json();
  json.set("coordinates", Json::Object{{"dp", rank}});
  json.set("slices", std::move(slices));
  if (other) json.set("other_weights", true);
  tensors.erase("loss");
  write_tensors(folder / fmt::format("rank-{}.safetensors", rank), tensors);
  io::replace_file(folder / fmt::format("rank-{}.json", rank), json.dump());
}

TEST(Against, RanksAreJudgedOneByOne) {
  const MadeStep step("llama");
  const TempFolder folder;
  for (const std::int64_t rank : {0, 1}) write_rank(step, folder, rank, step.tensors(step.right));
  EXPECT_EQ(first_wrong(MadeStep::judged(folder.path())), "");
  for (const std::int64_t rank : {0, 1}) {
    Case own = step.right;
    std::ranges::find(all_ways(), "one-rank", &Way::word)->change(own, static_cast<double>(rank));
    write_rank(step, folder, rank, step.tensors(own));
  }
  const Judgement judgement = MadeStep::judged(folder.path());
  ASSERT_EQ(words_of(judgement).front(), "one-rank");
  EXPECT_NE(judgement.faults.front().causes.front().sentence.find("each rank its own"), std::string::npos);
  EXPECT_EQ(judgement.faults.front().wrong.front().rank, "dp=0");
}

TEST(Against, ARankThatBeginsWithOtherWeightsIsNamed) {
  const MadeStep step("llama");
  const TempFolder folder;
  write_rank(step, folder, 0, step.tensors(step.right));
  Case other = step.right;
  auto weights = std::make_shared<std::vector<Values>>(*other.question.weights);
  weights->front().front() += 0.5;
  other.question.weights = weights;
  write_rank(step, folder, 1, step.tensors(other), true);
  EXPECT_EQ(words_of(MadeStep::judged(folder.path())).front(), "other-weights");
}

}  // namespace
}  // namespace lockstep::lab::against
