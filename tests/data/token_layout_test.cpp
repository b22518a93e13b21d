// Token files as other programs write them.

#include "data/formats/token_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/support.h"
#include "support/megatron.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

// llm.c, dev/data/data_common.py, write_datafile(): 256 int32, of which three are not 0, and the tokens.
template <class Id>
std::string llmc_file(std::int32_t magic, std::int32_t version, const std::vector<Id>& ids) {
  std::array<std::int32_t, 256> header{};
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(ids.size());
  return bytes_of(std::vector<std::int32_t>(header.begin(), header.end())) + bytes_of(ids);
}

template <class Id>
std::vector<Id> counting_as(std::size_t count, std::size_t vocabulary) {
  std::vector<Id> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<Id>(i % vocabulary);
  return ids;
}

std::vector<std::int32_t> all_of(const TokenFile& file) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens()));
  file.read(0, ids);
  return ids;
}

std::string refusal(const std::string& path, const TokenRequest& request = {}) {
  return user_error([&] { open_token_file(path, request); });
}

TEST(TokenLayout, ReadsTheTokenFilesOfLlmC) {
  const Folder folder;
  const TokenFile gpt2 = open_token_file(folder.write("g.bin", llmc_file<std::uint16_t>(20240520, 1, counting(5000, 50257))), {});
  EXPECT_EQ(all_of(gpt2), counting_as<std::int32_t>(5000, 50257));
  EXPECT_EQ(gpt2.format().vocabulary, 50304);
  std::vector<std::uint32_t> ids(5000);
  std::iota(ids.begin(), ids.end(), 123000);
  const TokenFile llama = open_token_file(folder.write("l.bin", llmc_file(20240801, 7, ids)), {});
  EXPECT_EQ(all_of(llama)[4999], 127999);
  EXPECT_EQ(llama.format().vocabulary, 128256);
  EXPECT_EQ(llama.tokens(), 5000);
}

TEST(TokenLayout, RefusesLlmCFilesThatContradictThemselves) {
  const Folder folder;
  const std::string good = llmc_file<std::uint16_t>(20240520, 1, counting(100, 65));
  const std::string path = folder.write("t.bin", good);
  EXPECT_TRUE(
      contains(refusal(folder.write("v.bin", llmc_file<std::uint16_t>(20240520, 2, counting(100, 65)))), "has version 2"));
  EXPECT_TRUE(
      contains(refusal(folder.write("s.bin", good.substr(0, good.size() - 2))), "198 bytes behind its header, but 100 tokens"));
  EXPECT_TRUE(contains(refusal(folder.write("h.bin", good.substr(0, 700))), "0 bytes behind its header, but 100 tokens"));
  EXPECT_TRUE(contains(refusal(path, {.vocabulary = 64}), "token 64 has id 64, above the vocabulary of 64"));
  EXPECT_TRUE(contains(refusal(path, {.ids = "uint32", .option = "--ids "}), "--ids uint32: "));
  EXPECT_TRUE(contains(refusal(path, {.ids = "uint32", .option = "--ids "}), "leave --ids out"));
  EXPECT_TRUE(
      contains(refusal(folder.write("q.bin", llmc_file<std::uint16_t>(20240522, 1, counting(100, 65)))), "multiple-choice"));
}

TEST(TokenLayout, RawIdsOfAnotherWidthAreRefusedWithTheOneThatFits) {
  const Folder folder;
  const std::string four = folder.write_ids("four.bin", counting_as<std::int32_t>(600, 65));
  const std::string eight = folder.write_ids("eight.bin", counting_as<std::int64_t>(600, 65));
  const std::string wide = folder.write_ids("wide.bin", counting_as<std::uint32_t>(200000, 100000));
  const std::string two = folder.write_ids("two.bin", counting(600, 65));
  const TokenRequest small{.vocabulary = 65, .option = "--ids "}, large{.vocabulary = 100000};
  EXPECT_TRUE(contains(refusal(four, small), "has zeros in every second place of uint16, as ids of 4 bytes have"))
      << refusal(four, small);
  EXPECT_TRUE(contains(refusal(four, small), "ids of 4 bytes fit: --ids int32; if they are uint16 all the same: --ids uint16"));
  EXPECT_TRUE(contains(refusal(eight, small), "all but every fourth place of uint16")) << refusal(eight, small);
  EXPECT_TRUE(contains(refusal(eight, small), "--ids int64"));
  EXPECT_TRUE(contains(refusal(eight, large), "every second place of int32")) << refusal(eight, large);
  EXPECT_TRUE(contains(refusal(eight, large), "data.ids=int64"));
  EXPECT_TRUE(contains(refusal(two, large), "ids of 2 bytes fit: data.ids=uint16")) << refusal(two, large);
  EXPECT_EQ(open_token_file(wide, large).tokens(), 200000);
  for (const auto& [path, type] : {std::pair(four, "int32"), {four, "uint32"}, {eight, "int64"}, {two, "uint16"}}) {
    const TokenFile file = open_token_file(path, {.vocabulary = 65, .ids = type});
    EXPECT_EQ(all_of(file), counting_as<std::int32_t>(600, 65)) << path << type;
  }
  EXPECT_TRUE(contains(refusal(two, {.vocabulary = 65, .ids = "int64"}), "ids of 2 bytes fit: data.ids=uint16"));
  EXPECT_TRUE(contains(refusal(folder.write_ids<std::int64_t>("n.bin", {0, -1, 2}), {.vocabulary = 65, .ids = "int64"}),
                       "token 1 has id 18446744073709551615"));
}

// Any file is one of narrow ids: they fit where ids as they were told are nonsense all over.
TEST(TokenLayout, AFewIdsAboveTheVocabularyAreNoNarrowerOnes) {
  const Folder folder;
  std::vector<std::int64_t> ids = counting_as<std::int64_t>(700, 50000);
  for (const std::int64_t strange : {std::int64_t{70000}, std::int64_t{-100}, (std::int64_t{1} << 32) + 5}) {
    for (std::size_t i = 0; i < ids.size(); i += 7) ids[i] = strange;
    const std::string said = refusal(folder.write_ids("e.bin", ids), {.ids = "int64"});
    EXPECT_TRUE(contains(said, "above the vocabulary of 50,304")) << said;
    EXPECT_FALSE(contains(said, "fit: data.ids=")) << said;
  }
}

TEST(TokenLayout, ZerosThatAreIdsAreLeftAlone) {
  const Folder folder;
  EXPECT_EQ(open_token_file(folder.write_ids("zero.bin", std::vector<std::uint16_t>(100)), {.vocabulary = 65}).tokens(), 100);
  std::vector<std::uint16_t> lines(100);
  for (std::size_t i = 0; i < 100; i += 2) lines[i] = 7;
  const std::string path = folder.write_ids("lines.bin", lines);
  EXPECT_TRUE(contains(refusal(path, {.vocabulary = 65}), "data.ids=uint16"));
  EXPECT_EQ(open_token_file(path, {.vocabulary = 65, .ids = "uint16"}).tokens(), 100);
  lines[99] = 1;
  EXPECT_EQ(open_token_file(folder.write_ids("lines.bin", lines), {.vocabulary = 65}).tokens(), 100);
}

TEST(TokenLayout, RefusesTextAndFormatsThatAreKnown) {
  const Folder folder;
  const std::string text = refusal(folder.write("t.txt", "First Citizen: Before we proceed any further"));
  EXPECT_TRUE(contains(text, "is text, not token ids")) << text;
  EXPECT_TRUE(contains(text, " prepare ")) << text;
  EXPECT_TRUE(contains(refusal(folder.write("a.npy", "\x93NUMPY\x01" + std::string(300, '\0'))), "is a NumPy array"));
  EXPECT_TRUE(contains(refusal(folder.write("a.npy", "\x93NUMPY\x01" + std::string(300, '\0'))), "astype('uint32').tofile"));
  EXPECT_TRUE(contains(refusal(folder.write("a.zip", "PK\x03\x04" + std::string(60, '\0'))), "is a zip archive"));
  EXPECT_TRUE(contains(refusal(folder.write("a.gz", "\x1f\x8b\x08" + std::string(60, '\0'))), "unpack it: gzip -dk"));
  EXPECT_TRUE(contains(refusal(folder.write("e.bin", "")), "empty"));
  EXPECT_TRUE(contains(refusal(folder.path("none.bin")), "there is no token file"));
}

TEST(TokenLayout, ReadsMegatronsFilesWithTheirDocuments) {
  const Folder folder;
  const MegatronData data{.documents = {{{5, 6, 7}, {8, 2}}, {{9, 2}}, {{2}}}};
  for (const auto& [code, bytes] : {std::pair(8, 2), {4, 4}, {5, 8}, {1, 1}}) {
    folder.write("m.bin", data.tokens(bytes));
    folder.write("m.idx", data.index(code, bytes));
    const TokenFile file = open_token_file(folder.path("m.bin"), {.vocabulary = 10});
    EXPECT_EQ(all_of(file), (std::vector<std::int32_t>{5, 6, 7, 8, 2, 9, 2, 2})) << bytes;
    EXPECT_EQ(file.documents(), 3);
    EXPECT_EQ(document_end(file), 2);
  }
  const MegatronData open{.documents = {{{5, 6, 7}}, {{9, 2}}}};
  folder.write("m.bin", open.tokens(2));
  folder.write("m.idx", open.index(8, 2));
  EXPECT_EQ(document_end(open_token_file(folder.path("m.bin"), {.vocabulary = 10})), std::nullopt);
}

TEST(TokenLayout, RefusesAMegatronIndexThatDoesNotFit) {
  const Folder folder;
  const MegatronData data{.documents = {{{5, 6, 7}, {8, 2}}, {{9, 2}}}};
  const std::string bin = folder.write("m.bin", data.tokens(2));
  const auto said = [&](const std::string& index) {
    folder.write("m.idx", index);
    return refusal(bin, {.vocabulary = 10});
  };
  const std::string good = data.index(8, 2);
  const auto with = [&](std::size_t place, char byte) {
    std::string changed = good;
    changed[place] = byte;
    return changed;
  };
  EXPECT_TRUE(contains(said(with(9, 2)), "it has version 2"));
  EXPECT_TRUE(contains(said(with(17, 7)), "its type 7 is none of token ids"));
  EXPECT_TRUE(contains(said(with(18, 4)), "bytes, which 4 sequences and 3 ends of documents do not take"));
  EXPECT_TRUE(contains(said(with(25, 127)), "bytes, which"));
  EXPECT_TRUE(contains(said(with(34, 4)), "its sequence 1 begins at byte 6, and the one before ends at 8"));
  EXPECT_TRUE(contains(said(good.substr(0, 20)), "it is too short"));
  EXPECT_TRUE(contains(said(data.index(4, 4)), "14 bytes, but 7 tokens of 4 bytes by"));
  EXPECT_TRUE(contains(refusal(folder.path("m.idx")), "is a Megatron index"));
  std::filesystem::remove(folder.path("m.idx"));
  EXPECT_EQ(open_token_file(bin, {.vocabulary = 10}).documents(), 0);
}

TEST(TokenLayout, ACorpusKnowsWhereMegatronsDocumentsEnd) {
  const Folder folder;
  const MegatronData data{.documents = {{{5, 6, 7}, {8, 2}}, {{9, 2}}}};
  for (const char* name : {"train", "val"}) {
    folder.write(std::string(name) + ".bin", data.tokens(4));
    folder.write(std::string(name) + ".idx", data.index(4, 4));
  }
  Log log(std::tmpfile());
  EXPECT_EQ(open_corpus(folder.path(), {.vocabulary = 10, .documents = true}, log).document_end, 2);
  const Corpus told =
      told_corpus(folder.path(), tell_corpus(folder.path(), open_corpus(folder.path(), {.documents = true}, log)));
  EXPECT_EQ(told.document_end, 2);
  EXPECT_EQ(told.train.tokens(), 7);
  const std::string text = user_error([&] { open_corpus(folder.path(), {.ids = "uint16"}, log); });
  EXPECT_TRUE(contains(text, "data.ids=uint16: ")) << text;
  EXPECT_TRUE(contains(text, "leave data.ids out")) << text;
}

}  // namespace
}  // namespace lockstep::data
