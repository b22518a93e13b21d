// The container of GGUF files: what is written, what is read, and what is refused.

#include "io/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fuzz/memory.h"
#include "support/temp_folder.h"

namespace lockstep::io {
namespace {

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
std::string raw_text(std::string_view text) { return raw(std::uint64_t{text.size()}) + std::string(text); }
std::string head(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
  return "GGUF" + raw(version) + raw(tensors) + raw(pairs);
}
std::string pair(std::string_view key, std::uint32_t type, const std::string& value) { return raw_text(key) + raw(type) + value; }
std::string tensor(std::string_view name, std::vector<std::uint64_t> extents, std::uint32_t type, std::uint64_t offset) {
  std::string bytes = raw_text(name) + raw(static_cast<std::uint32_t>(extents.size()));
  for (const std::uint64_t extent : extents) bytes += raw(extent);
  return bytes + raw(type) + raw(offset);
}
std::string padded(std::string header, std::size_t data) {
  header.resize((header.size() + 31) / 32 * 32);
  return header + std::string(data, 'x');
}

Gguf parse(const std::string& file) { return parse_gguf(fuzz::Memory(std::as_bytes(std::span(file))), "some/model.gguf"); }
std::string complaint(const std::string& file) {
  try {
    parse(file);
  } catch (const UserError& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("some/model.gguf")) << error.what();
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.what();
  }
  return "no error";
}
#define EXPECT_COMPLAINT(part, text) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text)

Gguf sample() {
  Gguf file;
  file.pairs = Json::Object{{"general.architecture", "llama"},
                            {"a.whole", 4'000'000'000},
                            {"a.real", 0.5},
                            {"a.flag", true},
                            {"a.texts", Json::Array{"x", "ü"}},
                            {"a.numbers", Json::Array{-1, 3}},
                            {"a.nothing", Json::Array{}}};
  file.tensors = {{"w", &gguf_type("F32"), {3, 5}}, {"q", &gguf_type("Q8_0"), {2, 64}}, {"v", &gguf_type("F16"), {7}}};
  lay_out_gguf(file);
  return file;
}
std::string bytes_of(const Gguf& file) {
  std::string bytes = gguf_header_bytes(file);
  bytes.resize(file.file_bytes, '\1');
  return bytes;
}

TEST(Gguf, ReadsBackWhatItLaysOut) {
  const Gguf file = sample();
  const std::string bytes = bytes_of(file);
  const Gguf read = parse(bytes);
  EXPECT_EQ(read.pairs.dump(), file.pairs.dump());
  ASSERT_EQ(read.tensors.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const GgufTensor &a = file.tensors[i], &b = read.tensors[i];
    EXPECT_EQ(std::tie(a.name, a.type, a.shape, a.offset, a.bytes), std::tie(b.name, b.type, b.shape, b.offset, b.bytes));
    EXPECT_EQ(b.offset % 32, 0U);
  }
  EXPECT_EQ(read.find("q")->bytes, 2U * 2 * 34);
  EXPECT_EQ(read.find("q")->offset, file.find("w")->offset + 64);
  EXPECT_EQ(read.find("nothing"), nullptr);
  EXPECT_EQ(read.file_bytes, bytes.size());
}

TEST(Gguf, WritesTheBytesOfTheFormat) {
  Gguf file;
  file.pairs = Json::Object{{"k", 7}, {"l", Json::Array{1}}};
  file.tensors = {{"w", &gguf_type("BF16"), {2, 3}}};
  lay_out_gguf(file);
  const std::string pairs =
      pair("k", 4, raw(std::uint32_t{7})) + pair("l", 9, raw(std::uint32_t{5}) + raw(std::uint64_t{1}) + raw(1));
  EXPECT_EQ(gguf_header_bytes(file), padded(head(1, 2) + pairs + tensor("w", {3, 2}, 30, 0), 0));
}

TEST(Gguf, ReadsEveryTypeOfValue) {
  const std::string file =
      padded(head(0, 12, 2) + pair("0", 0, raw(std::uint8_t{200})) + pair("1", 1, raw(std::int8_t{-3})) +
                 pair("2", 2, raw(std::uint16_t{65535})) + pair("3", 3, raw(std::int16_t{-4})) +
                 pair("4", 4, raw(std::uint32_t{1} << 31)) + pair("5", 5, raw(-5)) + pair("6", 6, raw(0.25F)) +
                 pair("7", 7, raw(std::uint8_t{1})) + pair("8", 8, raw_text("t")) +
                 pair("9", 9, raw(std::uint32_t{12}) + raw(std::uint64_t{2}) + raw(1.5) + raw(-2.5)) +
                 pair("10", 10, raw(std::uint64_t{1} << 40)) + pair("11", 11, raw(std::int64_t{-6})),
             0);
  EXPECT_EQ(parse(file).pairs.dump(),
            R"({"0":200,"1":-3,"2":65535,"3":-4,"4":2147483648,"5":-5,"6":0.25,"7":true,"8":"t","9":[1.5,-2.5],)"
            R"("10":1099511627776,"11":-6})");
}

TEST(Gguf, RefusesWhatIsNoSuchFile) {
  EXPECT_COMPLAINT("begin with \"GGUF\"", complaint("GGML" + std::string(20, '\0')));
  EXPECT_COMPLAINT("it ends at byte 3", complaint("GGU"));
  EXPECT_COMPLAINT("it is of version 1, but 2 and 3 are read", complaint(head(0, 0, 1)));
  EXPECT_COMPLAINT("it is of version 4", complaint(head(0, 0, 4)));
  EXPECT_COMPLAINT("big-endian", complaint(head(0, 0, 0x03000000)));
  EXPECT_COMPLAINT("it claims 1000 tensors, but there are 8 bytes left", complaint(head(1000, 0)));
  EXPECT_COMPLAINT("it claims 18446744073709551615 keys", complaint(head(0, ~std::uint64_t{0})));
}

TEST(Gguf, RefusesPairsThatCannotBe) {
  const auto one = [](const std::string& pairs, std::uint64_t count = 1) {
    return complaint(padded(head(0, count) + pairs, 99));
  };
  EXPECT_COMPLAINT("it claims 18446744073709551615 bytes of text", one(raw(~std::uint64_t{0})));
  EXPECT_COMPLAINT("not valid UTF-8", one(pair("\xff", 8, raw_text("x"))));
  EXPECT_COMPLAINT("\"k\" has a value of type 13", one(pair("k", 13, "")));
  EXPECT_COMPLAINT("\"k\" is a list of type 9", one(pair("k", 9, raw(9))));
  EXPECT_COMPLAINT("\"k\" is a list of type 77", one(pair("k", 9, raw(77))));
  EXPECT_COMPLAINT("it claims 4611686018427387904 elements", one(pair("k", 9, raw(10) + raw(std::uint64_t{1} << 62))));
  EXPECT_COMPLAINT("\"k\" is 9223372036854775808", one(pair("k", 10, raw(std::uint64_t{1} << 63))));
  EXPECT_COMPLAINT("the key \"k\" is there twice", one(pair("k", 4, raw(1)) + pair("k", 4, raw(1)), 2));
  EXPECT_COMPLAINT("\"general.alignment\" is 48", one(pair("general.alignment", 4, raw(48))));
  EXPECT_COMPLAINT("\"general.alignment\" is 0", one(pair("general.alignment", 4, raw(0))));
  EXPECT_COMPLAINT("\"general.alignment\" is \"32\"", one(pair("general.alignment", 8, raw_text("32"))));
}

TEST(Gguf, RefusesTensorsThatCannotBe) {
  const auto one = [](const std::string& tensors, std::uint64_t count = 1) {
    return complaint(padded(head(count, 0) + tensors, 64));
  };
  EXPECT_EQ("no error", one(tensor("w", {16}, 0, 0)));
  EXPECT_COMPLAINT("a tensor's name has 64 bytes", one(tensor(std::string(64, 'n'), {1}, 0, 0)));
  EXPECT_COMPLAINT("a tensor's name has 0 bytes", one(tensor("", {1}, 0, 0)));
  EXPECT_COMPLAINT("has 5 dimensions", one(tensor("w", {1, 1, 1, 1, 1}, 0, 0)));
  EXPECT_COMPLAINT("has 0 dimensions", one(tensor("w", {}, 0, 0)));
  EXPECT_COMPLAINT("has a dimension of 0", one(tensor("w", {0}, 0, 0)));
  EXPECT_COMPLAINT("has a dimension of 9223372036854775808", one(tensor("w", {std::uint64_t{1} << 63}, 0, 0)));
  EXPECT_COMPLAINT("is of type 4, which is not known", one(tensor("w", {1}, 4, 0)));
  EXPECT_COMPLAINT("of shape [33] has no size in Q8_0, which has blocks of 32", one(tensor("w", {33}, 8, 0)));
  EXPECT_COMPLAINT("has no size in F32", one(tensor("w", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0, 0)));
  EXPECT_COMPLAINT("\"w\" has 68 bytes at 0 of the data, which has 64", one(tensor("w", {17}, 0, 0)));
  EXPECT_COMPLAINT("\"w\" has 4 bytes at 16 of the data", one(tensor("w", {1}, 0, 16)));
  EXPECT_COMPLAINT("\"w\" has 4 bytes at 18446744073709551584", one(tensor("w", {1}, 0, ~std::uint64_t{31})));
  EXPECT_COMPLAINT("the tensor \"w\" is there twice", one(tensor("w", {1}, 0, 0) + tensor("w", {1}, 0, 32), 2));
  EXPECT_COMPLAINT("the tensors \"a\" and \"b\" overlap", one(tensor("a", {9}, 0, 0) + tensor("b", {1}, 0, 32), 2));
}

TEST(Gguf, DamagedFilesGiveOneErrorEach) {
  const std::string good = bytes_of(sample());
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (int flips = 1 + i % 3; flips > 0; --flips) bad[random() % bad.size()] = static_cast<char>(random());
    if (i % 4 == 0) bad.resize(random() % bad.size());
    static_cast<void>(complaint(bad));
  }
}

TEST(Gguf, IsToldByItsNameOrItsStart) {
  const TempFolder folder;
  replace_file(folder / "blob", "GGUF...");
  replace_file(folder / "damaged.gguf", "");
  replace_file(folder / "other", "GGML");
  EXPECT_TRUE(is_gguf(folder / "blob"));
  EXPECT_TRUE(is_gguf(folder / "damaged.gguf"));
  EXPECT_FALSE(is_gguf(folder / "other"));
  EXPECT_FALSE(is_gguf(folder / "nothing.gguf"));
  EXPECT_FALSE(is_gguf(folder.path()));
}

}  // namespace
}  // namespace lockstep::io
