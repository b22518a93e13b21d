#include "checkpoint/reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>

#include "checkpoint/find.h"
#include "checkpoint/sample.h"
#include "tensor/bfloat16.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

class Reading : public testing::Test {
 protected:
  Reading() { folder = save(run.path(), sample.content(), sample_manifest(300, 1.5), team).folder; }

  void flip(const fs::path& path, std::size_t position, int mask) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(position));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(position));
    file.put(static_cast<char>(byte ^ mask));
  }
  std::string read_all() {
    return complaint_of([&] {
      Sample other(9);
      const Content content = other.content();
      const Reader reader(folder);
      read(reader, content.model, team);
      read(reader, content.optimizer, team);
      if (!(other == sample)) throw UserError("read wrong values", "never");
    });
  }

  TempFolder run;
  Team team{2};
  Sample sample{5};
  fs::path folder;
};

TEST_F(Reading, FindsTensorsByName) {
  const Reader reader(folder);
  EXPECT_EQ(reader.manifest().step, 300);
  ASSERT_NE(reader.find("wte.weight"), nullptr);
  EXPECT_EQ(reader.find("wte.weight")->tensor.shape, Shape({65, 30}));
  EXPECT_EQ(reader.find("wte.weight.master"), reader.find("wte.weight"));  // fp32: not stored twice
  EXPECT_NE(reader.find("odd.exp_avg"), nullptr);
  EXPECT_EQ(reader.find("odd.exp"), nullptr);
  EXPECT_EQ(read_all(), "no error");
  EXPECT_TRUE(reader.verify(team).empty());
}

TEST_F(Reading, MastersOfTheirOwnAreNotTheWeights) {
  Manifest manifest = sample_manifest(301);
  manifest.master_is_model = false;
  const Reader reader(save(run.path(), sample.content(), manifest, team).folder);
  EXPECT_EQ(reader.find("wte.weight.master"), nullptr);
}

TEST_F(Reading, AnyRangesOfATensor) {
  const Reader reader(folder);
  const auto& all = sample.weights[2];  // h.0.weight [30, 120]
  std::vector<float> head(100), middle(3483), tail(17);
  const HeldTensor held{{"h.0.weight", {30, 120}, DType::f32},
                        {{3583, view(std::span(tail), Shape{17})},
                         {0, view(std::span(head), Shape{10, 10})},
                         {100, view(std::span(middle), Shape{3483})}}};
  read(reader, std::span(&held, 1), team);
  EXPECT_TRUE(std::equal(head.begin(), head.end(), all.begin()));
  EXPECT_TRUE(std::equal(middle.begin(), middle.end(), all.begin() + 100));
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), all.begin() + 3583));
}

// Columns of a matrix; the second part is held twice and counts once.
TEST_F(Reading, RectanglesOfATensor) {
  const Reader reader(folder);
  const auto& all = sample.weights[2];  // h.0.weight [30, 120]
  for (const DType type : {DType::f32, DType::bf16}) {
    std::vector<float> left(30 * 50), right(30 * 70), copy(right.size());
    std::vector<std::uint16_t> halves(left.size() + 2 * right.size());
    const auto part = [&](std::vector<float>& values, std::int64_t columns, std::int64_t place) {
      if (type == DType::f32) return view(std::span(values), Shape{30, columns});
      Tensor narrow = view(std::span(halves).subspan(static_cast<std::size_t>(place), values.size()), Shape{30, columns});
      narrow.dtype = DType::bf16;
      return narrow;
    };
    const Tensor parts[] = {part(left, 50, 0), part(right, 70, 1500), part(copy, 70, 3600)};
    const HeldTensor held{{"h.0.weight", {30, 120}, type}, {{0, parts[0], 120}, {50, parts[1], 120}, {50, parts[2], 120, false}}};
    read(reader, std::span(&held, 1), team);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t row = i / 120, column = i % 120;
      const auto value = [&](const std::vector<float>& values, std::size_t at, std::size_t place) {
        return type == DType::f32 ? values[at] : to_float(static_cast<BFloat16>(halves[place + at]));
      };
      const float expected = type == DType::f32 ? all[i] : to_float(to_halves(all[i]).high);
      if (column < 50) {
        ASSERT_EQ(value(left, row * 50 + column, 0), expected) << i;
      } else {
        ASSERT_EQ(value(right, row * 70 + column - 50, 1500), expected) << i;
        ASSERT_EQ(value(copy, row * 70 + column - 50, 3600), expected) << i;
      }
    }
  }
}

TEST_F(Reading, Fp32IsReadAsBf16AndBack) {
  const Reader reader(folder);
  const auto& all = sample.weights[2];  // h.0.weight [30, 120]
  std::vector<std::uint16_t> narrow(all.size());
  Tensor rounded = view(std::span(narrow), Shape{30, 120});
  rounded.dtype = DType::bf16;
  const HeldTensor held = hold_whole("h.0.weight", rounded);
  read(reader, std::span(&held, 1), team);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(static_cast<BFloat16>(narrow[i]), to_halves(all[i]).high) << i;
  }

  Manifest manifest = sample_manifest(302);
  manifest.master_is_model = false;
  const Reader second(save(run.path(), {.model = {held}, .optimizer = {}}, manifest, team).folder);
  EXPECT_EQ(second.find("h.0.weight")->tensor.dtype, DType::bf16);
  std::vector<float> wide(3599), last(1);
  const HeldTensor parts{{"h.0.weight", {30, 120}, DType::f32},
                         {{3599, view(std::span(last), Shape{1})}, {0, view(std::span(wide), Shape{3599})}}};
  read(second, std::span(&parts, 1), team);
  for (std::size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(wide[i], to_float(to_halves(all[i]).high)) << i;
  EXPECT_EQ(last[0], to_float(to_halves(all[3599]).high));
  EXPECT_TRUE(second.verify(team).empty());

  flip(second.folder() / model_file, fs::file_size(second.folder() / model_file) - 1, 4);
  const std::string complaint = complaint_of([&] { read(second, std::span(&parts, 1), team); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "does not match its checksum", complaint);
}

TEST_F(Reading, RangesThatDoNotTileTheTensorAreBugs) {
  const Reader reader(folder);
  std::vector<float> part(4);
  const Tensor four = view(std::span(part), Shape{4}), three = four.flat(0, 3);
  const auto refused = [&](std::vector<HeldRange> ranges) {
    // Ranges may be read at the same time: each has memory of its own.
    std::vector<std::vector<float>> memory(ranges.size(), std::vector<float>(4));
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      Tensor& values = ranges[i].values;
      values = view(std::span(memory[i]), Shape{4}).flat(0, values.elements()).reshape(values.shape);
    }
    const HeldTensor held{{"odd", {7}, DType::f32}, std::move(ranges)};
    try {
      read(reader, std::span(&held, 1), team);
    } catch (const BrokenRule&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused({{0, three}, {3, four}}));
  EXPECT_FALSE(refused({{0, four}, {4, three}, {3, four, 0, false}}));
  EXPECT_TRUE(refused({{3, four}}));
  EXPECT_TRUE(refused({{0, four}, {3, four}}));
  EXPECT_TRUE(refused({{4, four}, {0, three}}));
  EXPECT_TRUE(refused({{-1, four}, {3, four}}));
  EXPECT_TRUE(refused({{0, three}, {0, four.reshape(Shape{2, 2}), 6}}));
  EXPECT_TRUE(refused({{0, four.reshape(Shape{2, 2}), 1}, {0, three}}));
}

TEST_F(Reading, AnotherModelIsNamed) {
  const Reader reader(folder);
  std::vector<LogicalTensor> wanted = logical(sample.content().model);
  EXPECT_NO_THROW(reader.check_model(wanted));
  const auto complaint = [&] { return complaint_of([&] { reader.check_model(wanted); }); };
  wanted[0].shape = {50257, 768};
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "its tensor \"wte.weight\" is F32 [65, 30], this model's is F32 [50257, 768]",
                      complaint());
  wanted[0] = {"wte.weight", {65, 30}, DType::bf16};
  EXPECT_NO_THROW(reader.check_model(wanted));  // read() converts
  wanted[0] = {"wte.weight", {65, 30}, DType::i32};
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "is F32 [65, 30], this model's is I32 [65, 30]", complaint());
  wanted[0] = {"lm_head.weight", {65, 30}, DType::f32};
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "it has no tensor \"lm_head.weight\" F32 [65, 30]", complaint());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "it has a tensor \"wte.weight\" F32 [65, 30], this model has none", complaint());
  for (int i = 0; i < 20; ++i) wanted.push_back({"more" + std::to_string(i), {1}, DType::f32});
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "... and 17 more tensors", complaint());
}

// Only the table of learned positions may be cut to its first rows. Its checksum is that of all rows.
TEST_F(Reading, PositionsAreCroppedAndNothingElse) {
  constexpr const char* positions = "transformer.wpe.weight";
  std::vector<float> table(40);
  std::iota(table.begin(), table.end(), 1.0F);
  Content content = sample.content();
  content.model.push_back(hold_whole(positions, view(std::span(table), Shape{10, 4})));
  const fs::path other = save(run.path(), content, sample_manifest(301), team).folder;
  std::vector<float> first(12);
  content.model.back() = hold_whole(positions, view(std::span(first), Shape{3, 4}));
  const auto read_model = [&] {
    return complaint_of([&] {
      const Reader reader(other);
      const std::unique_ptr<RangeReader> ranges = reader.read_model(logical(content.model));
      ranges->fill(content.model, team);
      ranges->finish(*comm::make_self());
    });
  };
  EXPECT_EQ(read_model(), "no error");
  EXPECT_TRUE(std::equal(first.begin(), first.end(), table.begin()));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "this model's is F32 [3, 4]",
                      complaint_of([&] { Reader(other).check_model(logical(content.model)); }));
  std::vector<float> wide(12);
  content.model.back() = hold_whole(positions, view(std::span(wide), Shape{4, 3}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "this model's is F32 [4, 3]", read_model());
  content.model.back() = hold_whole(positions, view(std::span(first), Shape{3, 4}));
  // A byte of the last row, which nobody takes.
  const std::string bytes = io::read_file(other / "model.safetensors");
  const float last = table.back();
  std::string needle(sizeof last, ' ');
  std::memcpy(needle.data(), &last, sizeof last);
  flip(other / "model.safetensors", bytes.rfind(needle), 1);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "tensor \"transformer.wpe.weight\" does not match its checksum", read_model());
}

TEST_F(Reading, TensorsThatAreMissingOrOther) {
  const Reader reader(folder);
  std::vector<float> one(1);
  const auto complaint = [&](const char* name, Shape shape) {
    const HeldTensor held{{name, shape, DType::f32}, {{0, view(std::span(one), Shape{1})}}};
    return complaint_of([&] { read(reader, std::span(&held, 1), team); });
  };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "has no tensor \"h.1.bias\" F32 [30]", complaint("h.1.bias", {30}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "tensor \"h.0.bias\" is F32 [30], but F32 [31] is wanted",
                      complaint("h.0.bias", {31}));
}

TEST_F(Reading, EveryDamagedByteIsNoticed) {
  std::mt19937 generator(3);
  int tried = 0;
  for (const auto name : {model_file, optimizer_file, manifest_file}) {
    const fs::path path = folder / name;
    const std::size_t size = fs::file_size(path);
    const std::size_t dense = std::min<std::size_t>(size, 1500);  // headers: every byte
    for (std::size_t position = 0; position < size; position += position < dense ? 1 : 61) {
      const int mask = 1 << (generator() % 8);
      flip(path, position, mask);
      ASSERT_NE(read_all(), "no error") << path << " byte " << position;
      flip(path, position, mask);
      ++tried;
    }
  }
  EXPECT_GT(tried, 4000);
  EXPECT_EQ(read_all(), "no error");
}

TEST_F(Reading, DamagedTensorsAreNamed) {
  const auto size = fs::file_size(folder / optimizer_file);
  flip(folder / optimizer_file, size - 1, 1);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "tensor \"odd.exp_avg_sq\" does not match its checksum", read_all());
  const Reader reader(folder);
  EXPECT_EQ(reader.verify(team), std::vector<std::string>{"odd.exp_avg_sq"});
  // What is not asked for does not stand in the way.
  Sample other(9);
  EXPECT_NO_THROW(read(reader, other.content().model, team));
}

TEST_F(Reading, TruncatedAndMissingFiles) {
  const fs::path path = folder / model_file;
  const auto size = fs::file_size(path);
  fs::resize_file(path, size - 1);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "truncated or replaced", read_all());
  fs::resize_file(path, 3);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the file has 3 bytes", read_all());
  fs::remove(path);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "model.safetensors", read_all());
  fs::remove(folder / manifest_file);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "manifest.json", read_all());
}

TEST_F(Reading, FilesOfAnotherCheckpointAreNoticed) {
  Sample second(6);
  const fs::path other = save(run.path(), second.content(), sample_manifest(301), team).folder;
  fs::copy_file(other / model_file, folder / model_file, fs::copy_options::overwrite_existing);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "model.safetensors: the header does not match", read_all());
}

// Not damage but a lie: a sealed manifest that describes other tensors than the file has.
TEST_F(Reading, AManifestThatContradictsItsFiles) {
  Manifest manifest = read_manifest(folder);
  manifest.tensors[0].tensor.shape = {1 << 20, 1 << 20};
  io::replace_file(folder / manifest_file, manifest_text(manifest));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "tensor \"wte.weight\" is not what the manifest says", read_all());
}

}  // namespace
}  // namespace lockstep::checkpoint
