#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"
#include "data/bpe/training.h"
#include "io/file.h"

namespace lockstep::data::bpe {
namespace {

WordCounts counted(std::string_view text) {
  WordCounts counts;
  counts.add(Words(Pattern::gpt2), text);
  return counts;
}

Model trained(const WordCounts& counts, std::int64_t vocabulary) {
  return train_bpe(counts, Pattern::gpt2, vocabulary, [](std::int64_t) {});
}

std::string some_text() {
  std::string text;
  const Json golden = Json::parse(io::read_file("tests/golden/data/tokens.json"));
  for (const Json& part : golden.at("texts").array()) text += part.string();
  return text;
}

// The definition: count every pair anew for every merge.
std::vector<std::pair<std::string, std::string>> slow_merges(const WordCounts& counts, std::size_t merges) {
  std::map<std::string, int> ids;
  std::vector<std::pair<std::vector<std::string>, std::int64_t>> words;
  for (int byte = 0; byte < 256; ++byte) ids[std::string(1, static_cast<char>(byte))] = byte;
  for (const auto& [word, count] : counts.words()) {
    words.emplace_back(std::vector<std::string>(), count);
    for (const char byte : word) words.back().first.emplace_back(1, byte);
  }
  std::vector<std::pair<std::string, std::string>> result;
  while (result.size() < merges) {
    std::map<std::pair<int, int>, std::int64_t> pairs;
    std::map<int, std::string> texts;
    for (const auto& [text, id] : ids) texts[id] = text;
    for (const auto& [parts, count] : words) {
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) pairs[{ids[parts[i]], ids[parts[i + 1]]}] += count;
    }
    std::pair<int, int> best;
    std::int64_t most = 0;
    for (const auto& [pair, count] : pairs) {
      if (count > most) std::tie(best, most) = std::tie(pair, count);
    }
    if (most == 0) break;
    const std::string left = texts[best.first], right = texts[best.second];
    result.emplace_back(left, right);
    ids.emplace(left + right, static_cast<int>(ids.size()));
    for (auto& [parts, count] : words) {
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        if (parts[i] != left || parts[i + 1] != right) continue;
        parts[i] += right;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return result;
}

TEST(BpeTraining, MergesTheMostFrequentPairAndOfEqualsTheLowest) {
  const Model model = trained(counted("ab ab ab cd cd"), 260);
  EXPECT_EQ(model.tokens.size(), 260U);
  EXPECT_EQ((std::vector<std::string>(model.tokens.begin() + 256, model.tokens.end())),
            (std::vector<std::string>{"ab", " c", " ab", "<|endoftext|>"}));
}

TEST(BpeTraining, EndsWhenEveryWordIsAToken) {
  EXPECT_EQ(trained(counted("ab ab ab cd cd"), 1000).tokens.size(), 261U);
  EXPECT_EQ(trained(counted("a"), 257).tokens.size(), 257U);
}

TEST(BpeTraining, IsWhatCountingAnewGives) {
  const WordCounts counts = counted(some_text());
  const std::size_t merges = 150;
  const Model model = trained(counts, static_cast<std::int64_t>(257 + merges));
  std::vector<std::pair<std::string, std::string>> found;
  for (const Merge& merge : model.merges) {
    found.emplace_back(model.tokens[static_cast<std::size_t>(merge.left)], model.tokens[static_cast<std::size_t>(merge.right)]);
  }
  EXPECT_EQ(found, slow_merges(counts, merges));
}

TEST(BpeTraining, TheEndOfATextIsNoWord) {
  EXPECT_EQ(counted("ab<|endoftext|>\n cd<|endoftext|><|endoftext|>").words(),
            (WordCounts::Map{{"ab", 1}, {"\n", 1}, {" cd", 1}}));
}

TEST(BpeTraining, CountsAddUp) {
  const std::string text = "one two one  two\n";
  WordCounts halves = counted(text);
  halves.add(counted(text));
  const WordCounts once = counted(text);
  for (const auto& [word, count] : once.words()) EXPECT_EQ(halves.words().at(word), 2 * count) << word;
}

TEST(BpeTraining, IsReadBackFromItsFile) {
  const std::string text = some_text();
  const Model model = trained(counted(text), 500);
  const Json json = to_json(model);
  const auto direct = make_bpe_tokenizer(model, "", AddedTokens::found);
  const auto again = make_bpe_tokenizer(model_from_json(Json::parse(json.dump()), "t.json"), "", AddedTokens::found);
  std::vector<std::int32_t> ids(text.size()), other(text.size());
  std::string unknown;
  ids.resize(direct->encode(text, ids, unknown));
  other.resize(again->encode(text, other, unknown));
  EXPECT_EQ(ids, other);
  EXPECT_EQ(again->decode(ids), text);
}

}  // namespace
}  // namespace lockstep::data::bpe
