#include "checkpoint/tensor_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "io/checksum.h"
#include "support/temp_folder.h"

namespace lockstep::checkpoint {
namespace {

TEST(TensorFile, WritesWholeTensorsOfEveryType) {
  TempFolder temp;
  const auto path = temp.path() / "step.safetensors";
  std::vector<std::uint16_t> tokens{1, 2, 3};
  std::vector<float> loss{0.5f}, gradient(12);
  std::vector<std::int64_t> wide{-1, 5};
  std::iota(gradient.begin(), gradient.end(), 1.0f);
  const NamedTensors tensors{{"tokens", view(std::span(tokens), Shape{3})},
                             {"loss", view(std::span(loss), Shape{})},
                             {"gradient", view(std::span(gradient), Shape{3, 4})},
                             {"wide", view(std::span(wide), Shape{2})}};
  write_tensors(path, tensors, {{"step", "3"}});
  const io::MappedFile file(path);
  const auto header = io::parse_safetensors(file.bytes(), file.bytes().size(), "file");
  ASSERT_EQ(header.entries.size(), 4u);
  EXPECT_EQ(*header.find_metadata("step"), "3");
  EXPECT_EQ(header.find("gradient")->shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(header.find("loss")->shape, std::vector<std::int64_t>{});
  EXPECT_EQ(header.find("tokens")->dtype, "U16");
  for (const NamedTensor& named : tensors) {
    const auto* entry = header.find(named.name);
    ASSERT_EQ(entry->bytes, named.tensor.bytes());
    EXPECT_EQ(std::memcmp(file.bytes().data() + entry->offset, named.tensor.data, entry->bytes), 0) << named.name;
  }
}

TEST(TensorFile, PiecesInAnyOrderGiveTheWholesChecksum) {
  TempFolder temp;
  std::vector<float> values(200'000);
  std::iota(values.begin(), values.end(), 0.0f);
  const Tensor all = view(std::span(values), Shape{400, 500});
  const std::vector<LogicalTensor> table{{"small", {2}, DType::f32}, {"logits", {400, 500}, DType::f32}};
  io::File file = io::File::create(temp.path() / "out.safetensors");
  TensorFileWriter writer(file, table);
  writer.lay_out();
  for (std::int64_t row = 400; row > 0; row -= 100) {
    const std::int64_t first = (row - 100) * 500;
    writer.write(1, {first, all.flat(first, 100 * 500)});
  }
  writer.write(0, {1, all.flat(7, 1)});
  EXPECT_EQ(writer.tallies()[1].checksum, io::checksum(std::as_bytes(std::span(values)), 4, 0));
  EXPECT_EQ(writer.tallies()[1].elements, 200'000);
  EXPECT_EQ(writer.tallies()[0].elements, 1);
  const auto* entry = writer.header().find("logits");
  std::vector<float> read(values.size());
  file.read_at(entry->offset, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, values);
}

// The left and the right columns of a matrix, the right ones twice, of which one does not count.
TEST(TensorFile, RectanglesLieAtTheirRows) {
  TempFolder temp;
  std::vector<float> values(600), left(6 * 30), right(6 * 70);
  std::iota(values.begin(), values.end(), 0.0f);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / 100, column = i % 100;
    (column < 30 ? left[row * 30 + column] : right[row * 70 + column - 30]) = values[i];
  }
  const std::vector<LogicalTensor> table{{"w", {6, 100}, DType::f32}};
  io::File file = io::File::create(temp.path() / "out.safetensors");
  TensorFileWriter writer(file, table);
  writer.lay_out();
  writer.write(0, {0, view(std::span(left), Shape{6, 30}), 100});
  writer.write(0, {30, view(std::span(right), Shape{6, 70}), 100});
  writer.write(0, {30, view(std::span(right), Shape{6, 70}), 100, false});
  EXPECT_EQ(writer.tallies()[0].checksum, io::checksum(std::as_bytes(std::span(values)), 4, 0));
  EXPECT_EQ(writer.tallies()[0].elements, 600);
  std::vector<float> read(values.size());
  file.read_at(writer.header().find("w")->offset, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, values);
}

TEST(TensorFile, PartsOfARangeAreAllOfIt) {
  std::vector<float> values(3'000'000);
  const Tensor all = view(std::span(values), Shape{3, 1'000'000});
  const std::vector<HeldRange> flat = parts_of({7, all}), rows = parts_of({7, all, 2'000'000, false});
  ASSERT_EQ(flat.size(), 3U);
  EXPECT_EQ(flat[1].first, 7 + flat[0].values.elements());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[2].first, 4'000'007);
  EXPECT_FALSE(rows[2].counts);
  EXPECT_EQ(rows[2].values.data, all.data + 8'000'000);
  EXPECT_TRUE(parts_of({0, view(std::span(values).first(0), Shape{3, 0}), 5}).empty());
}

TEST(TensorFile, RefusesRangesThatAreNotOfTheTensor) {
  TempFolder temp;
  std::vector<float> values(12);
  const Tensor all = view(std::span(values), Shape{3, 4});
  const std::vector<LogicalTensor> table{{"w", {3, 4}, DType::f32}, {"i", {12}, DType::i32}};
  io::File file = io::File::create(temp.path() / "out.safetensors");
  TensorFileWriter writer(file, table);
  writer.lay_out();
  EXPECT_NO_THROW(writer.write(0, {0, all}));
  EXPECT_THROW(writer.write(0, {1, all}), BrokenRule);
  EXPECT_THROW(writer.write(0, {-1, all.flat(0, 1)}), BrokenRule);
  EXPECT_THROW(writer.write(0, {0, all.slice_columns(0, 2)}), BrokenRule);
  EXPECT_THROW(writer.write(1, {0, all}), BrokenRule);
  EXPECT_THROW(writer.write(0, {1, all, 4}), BrokenRule);
  EXPECT_THROW(writer.write(0, {0, all, 3}), BrokenRule);
}

TEST(TensorFile, AFailedWriteLeavesTheOldFile) {
  TempFolder temp;
  const auto path = temp.path() / "out.safetensors";
  io::replace_file(path, "old");
  std::vector<float> values(4);
  const Tensor all = view(std::span(values), Shape{4});
  EXPECT_THROW(write_tensors(path, {{"same", all}, {"same", all}}), UserError);
  EXPECT_EQ(io::read_file(path), "old");
  EXPECT_THROW(write_tensors(temp.path() / "missing" / "out.safetensors", {{"w", all}}), UserError);
}

}  // namespace
}  // namespace lockstep::checkpoint
