// Texts that are written side by side are those that each would be alone.

#include "train/serving/text_batch.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "support/tiny_engine.h"

namespace lockstep::train {
namespace {

using support::Machine;
using Tokens = std::vector<std::int32_t>;

/// A model with a context of several pages.
arch::ModelConfig long_model(const arch::ModelConfig& model) {
  arch::ModelConfig longer = model;
  longer.block_size = 400;
  return longer;
}

Tokens prompt_of(std::int64_t count, std::uint64_t seed) {
  Tokens prompt;
  for (std::int64_t i = 0; i < count; ++i)
    prompt.push_back(static_cast<std::int32_t>(CounterRng(seed, "prompt").below(65, static_cast<std::uint64_t>(i))));
  return prompt;
}

/// Texts of different lengths; several begin alike for more than a page.
std::vector<WantedText> wanted_texts() {
  std::vector<WantedText> texts;
  for (std::uint64_t n = 0; n < 9; ++n) {
    Tokens prompt = prompt_of(n % 3 == 0 ? 150 : 3, n % 3 == 0 ? 77 : n);
    const Tokens own = prompt_of(static_cast<std::int64_t>(5 * n), 100 + n);
    prompt.insert(prompt.end(), own.begin(), own.end());
    texts.push_back({prompt,
                     {.tokens = static_cast<std::int64_t>(4 + 9 * n),
                      .temperature = n == 4 ? 0.0 : 0.9,
                      .top_k = n == 5 ? 0 : 16,
                      .seed = 5,
                      .number = static_cast<std::int64_t>(n)}});
  }
  return texts;
}

/// A model to read with, and its memory.
struct Reader {
  Machine machine;
  support::DataParallel alone{*machine.world};
  std::unique_ptr<Engine> engine;
  layout::Range blocks;
  std::vector<layout::Chunk> chunks;
  PipelineLinks links;
  explicit Reader(const arch::ModelConfig& model)
      : engine(make_engine(support::tiny_config(model), machine)),
        chunks{{.blocks = {0, model.layers}, .embedding = true, .head = true}} {}
  ModelShare share() { return {engine->context(), chunks, links}; }
};

Tokens alone(Reader& reader, const WantedText& wanted) {
  TextSampler sampler(reader.share());
  Arena workspace("sampling", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
  sampler.declare(workspace, cache);
  Ledger ledger;
  workspace.commit(*reader.machine.runtime, ledger);
  cache.commit(*reader.machine.runtime, ledger);
  Tokens written;
  sampler.run(wanted.prompt, wanted.sampling, [&](std::int32_t token) {
    written.push_back(token);
    return true;
  });
  return written;
}

/// All texts, each begun as soon as there is room, `at_once` or one at a time.
std::vector<Tokens> together(Reader& reader, const std::vector<WantedText>& wanted, const BatchSize& size,
                             std::int64_t* saved = nullptr) {
  TextBatch batch(reader.share(), size, reader.machine.runtime->team());
  Arena workspace("serving", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
  batch.declare(workspace, cache);
  Ledger ledger;
  workspace.commit(*reader.machine.runtime, ledger);
  cache.commit(*reader.machine.runtime, ledger);
  std::vector<Tokens> written(wanted.size());
  std::map<std::int64_t, std::size_t> at;
  std::size_t next = 0;
  while (next < wanted.size() || batch.active() > 0) {
    while (next < wanted.size()) {
      const auto place = batch.begin(wanted[next]);
      if (!place) break;
      at[*place] = next++;
    }
    EXPECT_TRUE(batch.step([&](const WrittenToken& token) { written[at.at(token.place)].push_back(token.token.token); }));
  }
  EXPECT_FALSE(batch.step([](const WrittenToken&) { FAIL(); }));
  EXPECT_EQ(batch.pages().available(), batch.pages().size());
  if (saved != nullptr) *saved = batch.tokens_saved();
  return written;
}

TEST(TextBatch, EachTextIsTheOneThatIsWrittenAlone) {
  arch::ModelConfig learned = support::tiny_model();
  for (const arch::ModelConfig& tiny : {learned, support::tiny_qwen3(), support::tiny_gemma()}) {
    Reader reader(long_model(tiny));
    const std::vector<WantedText> wanted = wanted_texts();
    std::vector<Tokens> expected;
    for (const WantedText& text : wanted) expected.push_back(alone(reader, text));
    std::int64_t saved = 0;
    EXPECT_EQ(together(reader, wanted, {.texts = 1, .pages = 7, .rows = 33}, &saved), expected);
    EXPECT_GE(saved, 128) << "a prompt that begins alike is not read again";
    EXPECT_EQ(together(reader, wanted, {.texts = 3, .pages = 9, .rows = 7}), expected);
    EXPECT_EQ(together(reader, wanted, {.texts = 3, .pages = 9, .rows = 7, .rows_of_prompts = 40}), expected);
    EXPECT_EQ(together(reader, wanted, {.texts = 8, .pages = 50, .rows = 300}), expected);
  }
}

TEST(TextBatch, TextsThatBeginTogetherReadOnceWhatTheyShare) {
  Reader reader(long_model(support::tiny_model()));
  std::vector<WantedText> wanted;
  std::vector<Tokens> expected;
  for (std::int64_t n = 0; n < 8; ++n) {
    Tokens prompt = prompt_of(150, 77);
    prompt.resize(static_cast<std::size_t>(150 - n));
    wanted.push_back({prompt, {.tokens = 5 + n, .seed = 3, .number = n}});
    expected.push_back(alone(reader, wanted.back()));
  }
  for (const std::int64_t rows : {8, 40, 300}) {
    std::int64_t saved = 0;
    EXPECT_EQ(together(reader, wanted, {.texts = 8, .pages = 50, .rows = rows}, &saved), expected);
    EXPECT_GE(saved, rows == 300 ? 5 * 128 : 6 * 128) << rows;
  }
}

TEST(TextBatch, ATextThatIsEndedLeavesTheOthersAsTheyWere) {
  Reader reader(long_model(support::tiny_model()));
  const std::vector<WantedText> wanted = wanted_texts();
  const Tokens expected = alone(reader, wanted[8]);
  TextBatch batch(reader.share(), {.texts = 2, .pages = 12, .rows = 40}, reader.machine.runtime->team());
  Arena workspace("serving", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
  batch.declare(workspace, cache);
  Ledger ledger;
  workspace.commit(*reader.machine.runtime, ledger);
  cache.commit(*reader.machine.runtime, ledger);
  const std::int64_t other = batch.begin(wanted[3]).value(), kept = batch.begin(wanted[8]).value();
  EXPECT_FALSE(batch.begin(wanted[1])) << "both places are taken";
  Tokens written;
  for (int pass = 0; batch.active() > 0; ++pass) {
    if (pass == 6) batch.end(other);
    batch.step([&](const WrittenToken& token) {
      if (token.place == kept) written.push_back(token.token.token);
    });
  }
  EXPECT_EQ(written, expected);
  EXPECT_THROW(batch.end(other), BrokenRule);
}

TEST(TextBatch, LikelihoodsAreThoseOfTheLogits) {
  Reader reader(support::tiny_model());
  TextBatch batch(reader.share(), {.texts = 2, .pages = 2, .rows = 4}, reader.machine.runtime->team());
  Arena workspace("serving", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
  batch.declare(workspace, cache);
  Ledger ledger;
  workspace.commit(*reader.machine.runtime, ledger);
  cache.commit(*reader.machine.runtime, ledger);
  const Tokens prompt{1, 2, 3};
  support::TinyReader alone(reader.engine->context(), reader.machine);
  Tokens read = prompt;
  alone.read(view(std::span(read), Shape{3}), 0, 3);
  const std::vector<float> all = support::values_of(alone.logits);
  double sum = 0;
  std::vector<double> expected;
  for (std::size_t v = 0; v < 65; ++v) sum += std::exp(static_cast<double>(all[2 * 65 + v]));
  for (std::size_t v = 0; v < 65; ++v) expected.push_back(all[2 * 65 + v] - std::log(sum));
  batch.begin({prompt, {.tokens = 1, .temperature = 0}, 65 < BatchSize::most_likely ? 65 : BatchSize::most_likely});
  batch.step([&](const WrittenToken& written) {
    EXPECT_TRUE(written.last);
    ASSERT_EQ(std::ssize(written.likely), BatchSize::most_likely);
    EXPECT_EQ(written.token.token, written.likely[0].token);
    std::vector<double> sorted = expected;
    std::ranges::sort(sorted, std::greater<>());
    for (std::size_t i = 0; i < written.likely.size(); ++i) {
      EXPECT_NEAR(written.likely[i].log_probability, sorted[i], 1e-6);
      EXPECT_NEAR(written.likely[i].log_probability, expected[static_cast<std::size_t>(written.likely[i].token)], 1e-6);
    }
    EXPECT_NEAR(written.token.log_probability, sorted[0], 1e-6);
  });
  // A token that no text has is not told either; the others' likelihoods are as they were.
  const auto likeliest = static_cast<std::int32_t>(std::ranges::max_element(expected) - expected.begin());
  batch.begin({prompt, {.tokens = 1, .temperature = 0, .never = {likeliest}}, BatchSize::most_likely});
  batch.step([&](const WrittenToken& written) {
    for (const LikelyToken& likely : written.likely) {
      EXPECT_NE(likely.token, likeliest);
      EXPECT_NEAR(likely.log_probability, expected[static_cast<std::size_t>(likely.token)], 1e-6);
    }
    EXPECT_EQ(written.token.token, written.likely[0].token);
  });
  // Fewer are told where fewer may be drawn.
  std::vector<std::int32_t> never(62);
  std::iota(never.begin(), never.end(), 0);
  batch.begin({prompt, {.tokens = 1, .temperature = 0, .never = never}, BatchSize::most_likely});
  batch.step([&](const WrittenToken& written) {
    ASSERT_EQ(written.likely.size(), 3U);
    for (const LikelyToken& likely : written.likely) EXPECT_GE(likely.token, 62);
  });
}

TEST(PageBook, TextsThatBeginAlikeSharePages) {
  PageBook book(6);
  const Tokens text = prompt_of(200, 1);
  auto first = book.take(text, 250).value();
  EXPECT_EQ(std::ssize(first.pages), 4);
  EXPECT_EQ(first.known, 0);
  for (std::int64_t page = 0; page < 3; ++page)
    book.filled(first, page, std::span(text).subspan(static_cast<std::size_t>(64 * page), 64));
  const auto second = book.take(text, 201).value();  // while the first one is written
  EXPECT_EQ(second.known, 192);
  EXPECT_TRUE(std::ranges::equal(std::span(second.pages).first(3), std::span(first.pages).first(3)));
  EXPECT_EQ(book.available(), 1);
  EXPECT_FALSE(book.take(prompt_of(65, 2), 66)) << "two pages";
  book.give_back(first);
  book.give_back(second);
  EXPECT_EQ(book.available(), 6);
  // A whole prompt is never known: its last token's logits are wanted.
  EXPECT_EQ(book.take(std::span(text).first(128), 129)->known, 64);
  // What was used longest ago makes room, a text's end before its beginning.
  const auto other = book.take(prompt_of(10, 3), 64 * 3).value();
  book.give_back(other);
  EXPECT_THROW(book.give_back(other), BrokenRule);
}

TEST(PageBook, APageThatTwoTextsHaveReadIsKeptOnce) {
  PageBook book(6);
  const Tokens text = prompt_of(200, 1);
  const auto page = [&](std::int64_t index) { return std::span(text).subspan(static_cast<std::size_t>(64 * index), 64); };
  auto first = book.take(text, 192).value(), second = book.take(text, 192).value();
  EXPECT_EQ(book.available(), 0);
  EXPECT_FALSE(book.take_known(second, 0, page(0)));
  EXPECT_FALSE(book.filled(first, 0, page(0)));
  EXPECT_FALSE(book.filled(first, 0, page(0))) << "it is its own";
  EXPECT_TRUE(book.filled(second, 0, page(0)));
  EXPECT_EQ(second.pages[0], first.pages[0]);
  EXPECT_EQ(book.available(), 1);
  EXPECT_FALSE(book.take_known(second, 2, page(2))) << "what stands before is not known";
  EXPECT_FALSE(book.filled(first, 1, page(1)));
  EXPECT_TRUE(book.take_known(second, 1, page(1)));
  EXPECT_EQ(book.available(), 2);
  book.give_back(first);
  book.give_back(second);
  EXPECT_EQ(book.available(), 6);
}

TEST(PageBook, OtherTokensBeforeAreAnotherPage) {
  PageBook book(4);
  Tokens text = prompt_of(200, 1), other = text;
  other[0] ^= 1;
  auto hold = book.take(text, 200).value();
  for (std::int64_t page = 0; page < 3; ++page)
    book.filled(hold, page, std::span(text).subspan(static_cast<std::size_t>(64 * page), 64));
  book.give_back(hold);
  EXPECT_EQ(book.take(other, 200)->known, 0);
}

}  // namespace
}  // namespace lockstep::train
