// GGUF files as models: written from published ones, read as those are.

#include "io/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "checkpoint/huggingface/gguf_export.h"
#include "checkpoint/huggingface/stored_part.h"
#include "support/temp_folder.h"

namespace lockstep::checkpoint::huggingface {
namespace {

using namespace std::string_literals;

std::string golden(const std::string& name) { return "tests/golden/data/huggingface/" + name; }

std::vector<std::vector<float>> values_of(const Weights& weights, Team& team) {
  std::vector<std::vector<float>> all;
  for (const auto& parameter : weights.parameters()) all.emplace_back(static_cast<std::size_t>(parameter.shape.elements()));
  weights.for_each_piece(team, [&](std::size_t index, std::int64_t first, std::span<float> values) {
    std::copy(values.begin(), values.end(), all[index].begin() + first);
  });
  return all;
}

class GgufModel : public testing::Test {
 protected:
  io::Path file(const std::string& name) const { return folder_ / (name + ".gguf"); }
  io::Gguf content(const std::string& name) const { return io::parse_gguf(io::FileBytes(file(name)), name); }
  void edit(const std::string& name, const std::string& from, const std::string& to) const {
    std::string bytes = io::read_file(file(name));
    const std::size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    io::replace_file(file(name), bytes.replace(at, from.size(), to));
  }
  std::string refusal(const std::string& name) const {
    try {
      const Weights weights(file(name));
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  TempFolder folder_;
  Team team_{2};
};

TEST_F(GgufModel, HasTheWeightsThatWentIn) {
  for (const std::string name : {"gpt2", "gpt2_untied", "llama", "llama_tied", "rasbt", "rasbt_fused"}) {
    const Weights before(golden(name));
    for (const ElementType type : {ElementType::f32, before.type()}) {
      const std::string as = name + "_" + std::string(stored_name(type));
      if (!std::filesystem::exists(file(as))) export_gguf(before, file(as), {.type = type}, team_);
      const Weights after(file(as));
      EXPECT_EQ(after.warnings().size(), 0U);
      EXPECT_EQ(after.type(), type);
      arch::ModelConfig same = after.config();
      same.activation = before.config().activation;  // llama.cpp has one GELU
      same.init = before.config().init;
      if (name.starts_with("rasbt")) same.qkv_bias = before.config().qkv_bias;  // zeros are written
      EXPECT_EQ(same, before.config()) << name;
      const auto there = values_of(before, team_), back = values_of(after, team_);
      for (std::size_t i = 0; i < there.size(); ++i) {
        const std::string& parameter = before.parameters()[i].name;
        const auto found = std::ranges::find(after.parameters(), parameter, &arch::huggingface::Parameter::name);
        ASSERT_NE(found, after.parameters().end()) << parameter;
        EXPECT_EQ(back[static_cast<std::size_t>(found - after.parameters().begin())], there[i]) << name << ": " << parameter;
      }
    }
  }
}

// llama.cpp makes qwen2's matrix of queries as wide as the model (src/models/qwen2.cpp).
TEST_F(GgufModel, IsRefusedWithHeadsThatLlamaCppHasNot) {
  EXPECT_THROW(export_gguf(Weights(golden("qwen2")), file("qwen2"), {.type = ElementType::f32}, team_), UserError);
  EXPECT_FALSE(std::filesystem::exists(file("qwen2")));
}

TEST_F(GgufModel, PairsTheRowsThatLlamaCppTurns) {
  const Weights before(golden("llama"));
  export_gguf(before, file("llama"), {.type = ElementType::f32}, team_);
  const io::Gguf gguf = content("llama");
  const auto rows_of = [&](const char* name) {
    const io::GgufTensor& tensor = *gguf.find(name);
    std::vector<float> values(tensor.bytes / sizeof(float));
    io::File::open_to_read(file("llama")).read_at(tensor.offset, std::as_writable_bytes(std::span(values)));
    return values;
  };
  const std::vector<float> theirs = rows_of("blk.0.attn_k.weight"), ours = values_of(before, team_)[2];  // q, k, v
  ASSERT_EQ(before.parameters()[2].parts.size(), 3U);
  const std::int64_t columns = 24, heads = 6, size = 10;
  for (std::int64_t row = 0; row < 2 * size; ++row) {
    const std::int64_t within = row % size, from = row - within + within / 2 + within % 2 * size / 2;
    const auto* const a = theirs.data() + row * columns;
    const auto* const b = ours.data() + (heads * size + from) * columns;
    EXPECT_TRUE(std::equal(a, a + columns, b)) << row;
  }
  const std::vector<float> factors = rows_of("rope_freqs.weight");
  EXPECT_EQ(factors.size(), 5U);
  EXPECT_EQ(factors.front(), 1);
  EXPECT_EQ(factors.back(), 8);
}

TEST_F(GgufModel, KeepsVectorsAndPositionsInF32) {
  const Weights before(golden("gpt2"));
  export_gguf(before, file("small"), {.type = ElementType::q8_0, .pairs = Json::Object{{"general.name", "it"}}}, team_);
  const io::Gguf gguf = content("small");
  const auto type = [&](const char* name) { return gguf.find(name)->type->name; };
  EXPECT_EQ(type("position_embd.weight"), "F32");
  EXPECT_EQ(type("blk.0.attn_norm.weight"), "F32");
  EXPECT_EQ(type("blk.0.ffn_down.weight"), "Q8_0") << "rows of 96";
  EXPECT_EQ(type("token_embd.weight"), "F16") << "rows of 24";
  EXPECT_EQ(gguf.pairs.at("general.file_type").integer(), 7);
  EXPECT_EQ(gguf.pairs.at("general.quantization_version").integer(), 2);
  EXPECT_EQ(gguf.pairs.at("general.name").string(), "it");
  EXPECT_EQ(std::filesystem::file_size(file("small")), gguf.file_bytes);
}

TEST_F(GgufModel, IsNotWrittenOverAnotherNorLeftInPart) {
  const Weights weights(golden("llama"));
  io::replace_file(file("there"), "mine");
  EXPECT_THROW(export_gguf(weights, file("there"), {}, team_), UserError);
  EXPECT_EQ(io::read_file(file("there")), "mine");
  const std::string large = (folder_ / "large").string();
  std::filesystem::copy(golden("llama"), large);
  std::string bytes = io::read_file(large + "/model.safetensors");
  const float value = 70000;
  const io::SafetensorsHeader header = io::parse_safetensors(std::as_bytes(std::span(bytes)), bytes.size(), "it");
  std::memcpy(bytes.data() + header.find("lm_head.weight")->offset, &value, sizeof(value));
  io::replace_file(large + "/model.safetensors", bytes);
  try {
    export_gguf(Weights(large), file("halves"), {.type = ElementType::f16}, team_);
    ADD_FAILURE() << "it was written";
  } catch (const UserError& error) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "above 65504, which f16 cannot hold", error.what());
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_TRUE(entry.path() == file("there") || entry.path() == large) << entry.path();
}

TEST_F(GgufModel, RefusesAPartOfAModel) {
  for (const std::int64_t parts : {1, 2}) {
    const std::string name = parts == 1 ? "whole" : "part";
    export_gguf(Weights(golden("llama")), file(name), {.pairs = Json::Object{{"split.count", parts}}}, team_);
  }
  EXPECT_EQ(refusal("whole"), "no error");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "it is one of 2 parts of a model (\"split.count\")", refusal("part"));
}

TEST_F(GgufModel, RefusesWhatContradictsItself) {
  export_gguf(Weights(golden("llama")), file("it"), {.type = ElementType::f32}, team_);
  const std::string good = io::read_file(file("it"));
  const auto refused = [&](const std::string& from, const std::string& to) {
    io::replace_file(file("it"), good);
    edit("it", from, to);
    return refusal("it");
  };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"blk.0.ffn_xx.weight\" is none of this model's", refused("ffn_up", "ffn_xx"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"output_norm.weight\" [24] is missing", refused("output_norm", "output_yyyy"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "is not one of GGUF files",
                      refused("\5\0\0\0\0\0\0\0llama"s, "\5\0\0\0\0\0\0\0mamba"s));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "truncated", [&] {
    io::replace_file(file("it"), good.substr(0, good.size() - 100));
    return refusal("it");
  }());
}

/// A matrix of 12 rows, the heads' rows in pairs or as they are.
class StoredRows : public testing::TestWithParam<std::tuple<ElementType, std::int64_t>> {};

TEST_P(StoredRows, AreReadFromAnyPlace) {
  const auto [type, head] = GetParam();
  constexpr std::int64_t rows = 12, columns = 64;
  const TempFolder folder;
  io::File file = io::File::create(folder / "file");
  arch::huggingface::Part part;
  part.shape = Shape{rows, columns};
  part.rows = rows;
  const StoredPart stored{part, &file, 7, type, head};
  std::vector<float> values(rows * columns), read(values.size());
  std::mt19937 random(1);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64;
  for (std::int64_t row = 0; row < 2 * rows; ++row) values[static_cast<std::size_t>(row * 32)] = 127.0F / 64;  // exact in q8_0
  Scratch scratch;
  EXPECT_TRUE(stored.write(5 * columns, std::span(values).subspan(5 * columns), scratch));
  EXPECT_TRUE(stored.write(0, std::span(values).first(5 * columns), scratch));
  EXPECT_EQ(file.size(), 7 + bytes_of(type, values.size()));
  io::File again = io::File::open_to_read(folder / "file");
  const StoredPart from{part, &again, 7, type, head};
  for (int i = 0; i < 200; ++i) {
    const std::size_t first = i == 0 ? 0 : random() % values.size();
    const std::size_t count = i == 0 ? values.size() : 1 + random() % (values.size() - first);
    from.read(static_cast<std::int64_t>(first), std::span(read).first(count), scratch);
    ASSERT_TRUE(std::equal(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(count),
                           values.begin() + static_cast<std::ptrdiff_t>(first)))
        << first << " " << count;
  }
}
INSTANTIATE_TEST_SUITE_P(Types, StoredRows,
                         testing::Combine(testing::Values(ElementType::f32, ElementType::f16, ElementType::bf16,
                                                          ElementType::q8_0),
                                          testing::Values(0, 4)));

// The bytes that ggml_quantize_chunk() makes of these.
TEST(Quantised, BlocksAreGgmls) {
  std::vector<float> values(32);
  std::iota(values.begin(), values.end(), -20.0F);
  values[3] = 25.4F;
  std::vector<std::byte> bytes(34);
  EXPECT_TRUE(round_to(values, ElementType::q8_0, bytes));
  EXPECT_EQ(bytes[0], std::byte{0x66});  // 0.2 in half precision
  EXPECT_EQ(bytes[1], std::byte{0x32});
  EXPECT_EQ(static_cast<std::int8_t>(bytes[2]), -100);
  EXPECT_EQ(static_cast<std::int8_t>(bytes[5]), 127);
  std::vector<float> back(32);
  widen(bytes, ElementType::q8_0, back);
  EXPECT_NEAR(back[3], 25.4F, 0.01F);
  EXPECT_EQ(back[20], 0);
  for (const float tiny : {0.0F, 1e-44F}) {
    std::ranges::fill(values, tiny);
    EXPECT_TRUE(round_to(values, ElementType::q8_0, bytes));
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }));
  }
  values[5] = 8.4e6F;
  EXPECT_FALSE(round_to(values, ElementType::q8_0, bytes)) << "the scale is no half";
}

}  // namespace
}  // namespace lockstep::checkpoint::huggingface
