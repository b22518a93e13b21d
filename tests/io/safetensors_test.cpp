#include "io/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"

namespace lockstep::io {
namespace {

std::string file_with(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'x');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), file.size(), "some/model.safetensors");
}

// The message of the error that reading `file` gives; it must name the file and offer a remedy.
std::string complaint(const std::string& file) {
  try {
    parse(file);
  } catch (const UserError& error) {
    EXPECT_NE(std::string_view(error.what()).find("some/model.safetensors"), std::string_view::npos) << error.what();
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.what();
  }
  return "no error";
}

std::string complaint_about(const std::string& header, std::size_t data_bytes) {
  return complaint(file_with(header, data_bytes));
}

#define EXPECT_COMPLAINT(part, text) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text)

TEST(Safetensors, ReadsBackWhatItLaysOut) {
  const auto header =
      lay_out_safetensors({{"tokens", "U16", {3}}, {"w", "F32", {2, 3}}, {"scalar", "F32", {}}, {"none", "I64", {0, 5}}},
                          {{"step", "7"}, {"note", "a \"quoted\" ünicode\n"}});
  const std::string bytes = safetensors_header_bytes(header);
  EXPECT_EQ(bytes.size(), header.data_offset);
  EXPECT_EQ(header.file_bytes, header.data_offset + 24 + 4 + 6);
  const auto read = parse(bytes + std::string(header.file_bytes - bytes.size(), '\0'));
  ASSERT_EQ(read.entries.size(), 4u);
  EXPECT_EQ(read.metadata, header.metadata);
  EXPECT_EQ(*read.find_metadata("step"), "7");
  EXPECT_EQ(read.find_metadata("else"), nullptr);
  for (const char* name : {"tokens", "w", "scalar", "none"}) {
    const auto *a = header.find(name), *b = read.find(name);
    ASSERT_NE(b, nullptr) << name;
    EXPECT_EQ(a->dtype, b->dtype);
    EXPECT_EQ(a->shape, b->shape);
    EXPECT_EQ(a->offset, b->offset);
    EXPECT_EQ(a->bytes, b->bytes);
    EXPECT_EQ(b->offset % safetensors_element_size(b->dtype), 0u);
  }
  EXPECT_EQ(read.find("other"), nullptr);
}

TEST(Safetensors, PlacesFollowFromTheTableAlone) {
  const std::vector<SafetensorsEntry> table{{"b", "BF16", {5}}, {"a", "F32", {7}}, {"c", "F32", {1}}};
  const auto header = lay_out_safetensors(table);
  EXPECT_EQ(safetensors_header_bytes(header), safetensors_header_bytes(lay_out_safetensors(table)));
  EXPECT_EQ(header.data_offset % safetensors_alignment, 0u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[0].offset, header.data_offset);
  EXPECT_EQ(header.entries[1].name, "c");
  EXPECT_EQ(header.entries[1].offset, header.data_offset + 28);
  EXPECT_EQ(header.entries[2].offset, header.data_offset + 32);
  EXPECT_EQ(lay_out_safetensors({}).file_bytes, 64u);
}

TEST(Safetensors, RefusesToLayOutNonsense) {
  EXPECT_THROW(lay_out_safetensors({{"a", "F32", {1}}, {"a", "F32", {2}}}), UserError);
  EXPECT_THROW(lay_out_safetensors({{"__metadata__", "F32", {1}}}), UserError);
  EXPECT_THROW(lay_out_safetensors({{"a", "F31", {1}}}), BrokenRule);
  EXPECT_THROW(lay_out_safetensors({{"a", "F32", {std::int64_t{1} << 40, std::int64_t{1} << 40}}}), BrokenRule);
}

TEST(Safetensors, RefusesFilesThatAreNone) {
  EXPECT_COMPLAINT("has 0 bytes", complaint(""));
  EXPECT_COMPLAINT("has 7 bytes", complaint("1234567"));
  EXPECT_COMPLAINT("does not start with \"{\"", complaint(file_with("", 0)));
  EXPECT_COMPLAINT("does not start with \"{\"", complaint(file_with("[1]", 0)));
  EXPECT_COMPLAINT("not valid JSON", complaint(file_with("{\"a\":", 0)));
  EXPECT_COMPLAINT("not valid JSON", complaint(file_with("{} {}", 0)));
  EXPECT_COMPLAINT("limit is 100000000", complaint("PK\x03\x04 some archive"));
  EXPECT_COMPLAINT("but the file has 100", complaint(std::string("\x00\x01\0\0\0\0\0\0", 8) + std::string(100, '{')));
}

TEST(Safetensors, RefusesAHeaderThatClaims2To60Bytes) {
  std::string file = file_with("{}", 100);
  const std::uint64_t claim = std::uint64_t{1} << 60;
  std::memcpy(file.data(), &claim, 8);
  EXPECT_COMPLAINT("the header claims 1152921504606846976 bytes, the limit is 100000000", complaint(file));
  std::memset(file.data(), 0xFF, 8);  // 8 + length would overflow
  EXPECT_COMPLAINT("the header claims 18446744073709551615 bytes", complaint(file));
}

TEST(Safetensors, RefusesWrongEntries) {
  EXPECT_COMPLAINT("\"a\": its entry is 5", complaint_about(R"({"a":5})", 0));
  EXPECT_COMPLAINT("\"dtype\" is missing", complaint_about(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4));
  EXPECT_COMPLAINT("\"dtype\" is missing", complaint_about(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", 4));
  EXPECT_COMPLAINT("type \"F31\" is not known", complaint_about(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4));
  EXPECT_COMPLAINT("\"shape\" is missing", complaint_about(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4));
  EXPECT_COMPLAINT("\"shape\" is [-1]", complaint_about(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4));
  EXPECT_COMPLAINT("\"shape\" is [1.5]", complaint_about(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4));
  EXPECT_COMPLAINT("\"shape\" is",
                   complaint_about(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4));
  EXPECT_COMPLAINT("\"shape\" is 1,", complaint_about(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4));
  EXPECT_COMPLAINT("\"data_offsets\" is missing", complaint_about(R"({"a":{"dtype":"F32","shape":[1]}})", 4));
  EXPECT_COMPLAINT("has 3 numbers", complaint_about(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4));
  EXPECT_COMPLAINT(
      "twice",
      complaint_about(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2));
}

TEST(Safetensors, RefusesWrongRanges) {
  const auto one = [](const char* shape, const char* offsets) {
    return fmt::format(R"({{"a":{{"dtype":"F32","shape":{},"data_offsets":{}}}}})", shape, offsets);
  };
  EXPECT_COMPLAINT("[4, 0) do not lie", complaint_about(one("[1]", "[4,0]"), 4));
  EXPECT_COMPLAINT("[0, 4) do not lie within the file's 3 bytes", complaint_about(one("[1]", "[0,4]"), 3));
  EXPECT_COMPLAINT("[9223372036854775800, 9223372036854775804) do not lie",
                   complaint_about(one("[1]", "[9223372036854775800,9223372036854775804]"), 4));
  EXPECT_COMPLAINT("contradicts shape [2] of F32 (4 bytes each)", complaint_about(one("[2]", "[0,4]"), 4));
  EXPECT_COMPLAINT("contradicts shape", complaint_about(one("[4611686018427387905]", "[0,4]"), 4));  // 4 x that is 4 mod 2^64
  EXPECT_COMPLAINT("contradicts shape", complaint_about(one("[4294967296,4294967296]", "[0,0]"), 0));
  EXPECT_COMPLAINT("1 bytes follow after the last tensor", complaint_about(one("[1]", "[0,4]"), 5));
  EXPECT_COMPLAINT("start at 4 of the data, but the tensor before ends at 0", complaint_about(one("[1]", "[4,8]"), 8));
  EXPECT_COMPLAINT(
      "\"b\": its bytes start at 2 of the data, but the tensor before ends at 4",
      complaint_about(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6));
}

TEST(Safetensors, RefusesWrongMetadata) {
  EXPECT_COMPLAINT("must be an object of strings", complaint_about(R"({"__metadata__":[]})", 0));
  EXPECT_COMPLAINT("must be an object of strings, but \"a\" is 1", complaint_about(R"({"__metadata__":{"a":1}})", 0));
}

TEST(Safetensors, QuotesOnlyTheStartOfLongNames) {
  const std::string text = complaint_about(fmt::format(R"({{"{}":5}})", std::string(100000, 'n')), 0);
  EXPECT_COMPLAINT("nnnn...", text);
  EXPECT_LT(text.size(), 500u);
}

// Much memory is taken for none of these: what is not valid is noticed before the rest is read, or before it is kept.
TEST(Safetensors, RefusesHeadersThatWouldTakeFarMoreMemoryThanTheyHave) {
  std::string zeros = "0";
  for (int i = 0; i < 2'000'000; ++i) zeros += ",0";
  EXPECT_COMPLAINT("far more memory", complaint_about("{\"a\":[" + zeros + "]}", 0));
  EXPECT_COMPLAINT("far more memory", complaint_about("{\"a\":{\"b\":[" + zeros + "]}}", 0));
}

// Whatever a damaged header says, it is read or refused: never a crash, never a range outside of the file.
TEST(Safetensors, SurvivesDamagedHeaders) {
  const auto header = lay_out_safetensors({{"w", "F32", {2, 3}}, {"b", "F32", {3}}, {"t", "I64", {2}}}, {{"format", "pt"}});
  const std::string good = safetensors_header_bytes(header) + std::string(header.file_bytes - header.data_offset, 'x');
  std::mt19937 generator(5);
  int refused = 0;
  for (std::size_t position = 0; position < header.data_offset; ++position) {
    for (int round = 0; round < 8; ++round) {
      std::string file = good;
      file[position] = static_cast<char>(generator() & 0xFF);
      try {
        for (const auto& entry : parse(file).entries) EXPECT_LE(entry.offset + entry.bytes, file.size());
      } catch (const UserError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_THROW(parse(good.substr(0, size)), UserError) << size;
}

}  // namespace
}  // namespace lockstep::io
