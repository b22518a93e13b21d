// Random layouts of random small models keep their promise. LOCKSTEP_VERIFY_CASES says how many (make parity),
// LOCKSTEP_VERIFY_SEED which.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <random>

#include "lab/verify/verify.h"
#include "layout/pipeline/schedules.h"
#include "support/random_models.h"

namespace lockstep::lab {
namespace {

int setting(const char* name, int usual) {
  const char* const value = std::getenv(name);
  return value == nullptr ? usual : std::atoi(value);
}

VerifyModel random_verify_model(std::mt19937& random) {
  VerifyModel model{.name = "random", .config = support::random_model(random)};
  // Where a norm has a row of one or two numbers, or the loss next to nothing to tell apart, gradients are little but rounding.
  model.config.width = 4 + static_cast<std::int64_t>(random() % 12);
  model.config.vocabulary = 8 + static_cast<std::int64_t>(random() % 40);
  model.config.layers = 1 + static_cast<std::int64_t>(random() % 6);
  if (model.config.qk_norm) {
    // A query that sees one key alone has no gradient, nor has a normalised head of two features.
    model.config.head_size = std::max<std::int64_t>(model.config.head_size, 4);
    model.config.block_size = std::max<std::int64_t>(model.config.block_size, 4);
    if (model.config.window > 0) model.config.window = std::max<std::int64_t>(model.config.window, 3);
  }
  // Six blocks of four features add up to more rounding than a published model, and Adam makes whole steps of it. What a layout
  // loses or counts twice is a hundred times this.
  model.fp32_tolerance = 1e-3;
  model.config.dropout = random() % 2 == 0 ? 0.2F : 0;
  model.positions = model.config.block_size;
  model.samples = 1 + static_cast<std::int64_t>(random() % 3);
  model.grad_clip = random() % 2 == 0 ? 0.1F : 0;
  if (random() % 4 == 0) model.optimizer = {.name = "sgd", .momentum = 0.9F};
  model.seed = random();
  return model;
}

bool is_legal(const VerifyModel& model, const std::string& text) {
  std::vector<Problem> problems;
  const std::optional<Layout> layout = layout_from(text, problems);
  return layout && check(*layout, model.limits(), layout->plan.ranks()).empty();
}

/// Degrees that canonical mode takes more often than not, if it is wished.
std::string random_layout(const VerifyModel& model, std::mt19937& random, bool canonical) {
  const auto one_of = [&](const std::vector<std::string>& words) { return words[random() % words.size()]; };
  const layout::PlanLimits limits = model.limits();
  const auto least = static_cast<unsigned>(std::min({limits.heads, limits.ffn_width, limits.vocabulary, std::int64_t{4}}));
  // 1, 2, 3, ... , or the power of two that is not above it.
  const auto degree = [&](unsigned most) {
    const unsigned drawn = 1 + static_cast<unsigned>(random() % most);
    return static_cast<int>(canonical ? std::bit_floor(drawn) : drawn);
  };
  const int dp = degree(4), zero = static_cast<int>(random() % 4);
  const int tp = random() % 2 == 0 ? 1 : degree(least);
  std::vector<std::string> words{fmt::format("dp={}", dp), fmt::format("tp={}", tp), fmt::format("gas={}", degree(3)),
                                 fmt::format("zero={}", zero)};
  if (tp > 1 && tp <= limits.positions && random() % 2 == 0) words.emplace_back("sequence");
  const int cp = canonical ? 2 * degree(2) : 2 + static_cast<int>(random() % 2);
  int ranks = dp * tp;
  if (random() % 2 == 0 && 2 * cp <= limits.positions && tp <= limits.positions / cp) {
    ranks *= cp;
    words.push_back(fmt::format("cp={}", cp));
    words.push_back(limits.heads / tp < cp ? one_of({"context=allgather", "context=ring"})
                                           : one_of({"context=allgather", "context=ulysses", "context=ring"}));
  }
  if (random() % 4 == 0) words.emplace_back("documents");
  if (random() % 2 == 0) {
    const auto schedules = layout::schedules();
    const layout::NamedSchedule& schedule = schedules[random() % schedules.size()];
    const int most = std::min(static_cast<int>(limits.layers) / usual_chunks(schedule, 2), most_verify_ranks / ranks);
    if (most > 1) {
      const int pp = 2 + static_cast<int>(random() % static_cast<unsigned>(most - 1));
      words.push_back(fmt::format("pp={}:{}", pp, schedule.name));
      words[2] =
          fmt::format("gas={}", std::max(1, schedule.least_microbatches * pp) + (canonical ? 0 : static_cast<int>(random() % 3)));
    }
  }
  if (dp % 2 == 0 && zero > 0) words.push_back(one_of({"zero_group=all", "zero_group=node"}));
  words.push_back(canonical ? "reduce=step" : one_of({"reduce=step", "reduce=microbatch"}));
  words.push_back(one_of({"recompute=none", "recompute=selective", "recompute=full",
                          fmt::format("recompute=every:{}", 1 + random() % static_cast<unsigned>(model.config.layers))}));
  words.push_back(one_of({"prefetch=0", "prefetch=1", "prefetch=3"}));
  words.push_back(one_of({"reshard=true", "reshard=false"}));
  words.push_back(one_of({"overlap=true", "overlap=false"}));
  words.push_back(one_of({"bucket=1", "bucket=5000", "bucket=1000000"}));
  const std::string text = fmt::format("{}", fmt::join(words, ","));
  const std::string more = canonical ? ",canonical" : fmt::format(",tiles={}x{}", 1 + random() % 3, 1 + random() % 3);
  return is_legal(model, text + more) ? text + more : text;
}

TEST(VerifyRandom, LayoutsKeepTheirPromise) {
  std::mt19937 random(static_cast<unsigned>(setting("LOCKSTEP_VERIFY_SEED", 1)));
  for (int number = 0; number < setting("LOCKSTEP_VERIFY_CASES", 12); ++number) {
    const VerifyModel model = random_verify_model(random);
    const std::string text = random_layout(model, random, number % 3 == 1);
    SCOPED_TRACE(text);
    std::vector<Problem> problems;
    const VerifyOptions options{.models = {model}, .layouts = {layout_from(text, problems).value()}, .steps = 2};
    for (const Problem& problem : check(options)) ADD_FAILURE() << problem.message;
    for (const LayoutReport& report : verify(options, [](const LayoutReport&) {})) {
      EXPECT_EQ(report.failure.reason, "") << "case " << number << ", layout " << report.layout;
      for (const std::string& wrong : report.wrong)
        ADD_FAILURE() << "case " << number << ", layout " << report.layout << " against " << report.against << ": " << wrong;
    }
  }
}

}  // namespace
}  // namespace lockstep::lab
