#include "checkpoint/manifest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "checkpoint/sample.h"
#include "io/checksum.h"

namespace lockstep::checkpoint {
namespace {

Manifest full() {
  Manifest manifest = sample_manifest(300, 1.875);
  manifest.dtype = DType::bf16;
  manifest.best_validation_loss = 1.5;
  manifest.files = {{"model.safetensors", 1000, 0xFEDCBA9876543210}};
  manifest.tensors = {{{"w", {2, 3, 4, 5}, DType::bf16}, "model.safetensors", 7},
                      {{"scalar", {}, DType::f32}, "model.safetensors", 8}};
  return manifest;
}

// The text of a manifest after `change`, sealed again: what only a foreign program would write.
template <class Change>
std::string rewritten(Change change) {
  Manifest manifest = full();
  change(manifest);
  return manifest_text(manifest);
}

// The text with the checksum that it should have now.
std::string sealed_again(const std::string& text) {
  const std::string body = text.substr(0, text.rfind(",\n  \"checksum\""));
  return fmt::format("{},\n  \"checksum\": \"{:016x}\"\n}}\n", body, io::checksum(std::as_bytes(std::span(body)), 1, 0));
}

TEST(Manifest, ReadsBackWhatItWrites) {
  const Manifest manifest = full();
  const std::string text = manifest_text(manifest);
  const Manifest read = parse_manifest(text, "m");
  EXPECT_EQ(manifest_text(read), text);
  EXPECT_EQ(read.step, 300);
  EXPECT_EQ(read.seed, 0xFFFFFFFFFFFFFFFFu);
  EXPECT_EQ(read.next_sample, 3600);
  EXPECT_EQ(read.tokens_seen, 230400);
  EXPECT_EQ(read.global_batch, 12);
  EXPECT_EQ(read.validation_loss, 1.875);
  EXPECT_EQ(read.best_validation_loss, 1.5);
  EXPECT_EQ(read.model.at("n_embd").integer(), 30);
  EXPECT_EQ(read.optimizer.at("lr").number(), 0.001);
  EXPECT_EQ(read.run.at("epoch").integer(), 2);
  EXPECT_TRUE(read.master_is_model);
  EXPECT_EQ(read.dtype, DType::bf16);
  EXPECT_EQ(read.find_file("model.safetensors")->header_checksum, 0xFEDCBA9876543210u);
  EXPECT_EQ(read.find_file("other"), nullptr);
  EXPECT_EQ(read.bytes(), 1000u);
  ASSERT_EQ(read.tensors.size(), 2u);
  EXPECT_EQ(read.tensors[0].tensor.shape, Shape({2, 3, 4, 5}));
  EXPECT_EQ(read.tensors[0].tensor.dtype, DType::bf16);
  EXPECT_EQ(read.tensors[1].tensor.shape, Shape());
}

TEST(Manifest, OneOlderThanBf16IsOfFp32) {
  std::string text = manifest_text(full());
  const std::string field = "  \"dtype\": \"BF16\",\n  \"master";
  ASSERT_NE(text.find(field), std::string::npos);
  text.replace(text.find(field), field.size(), "  \"master");
  EXPECT_EQ(parse_manifest(sealed_again(text), "m").dtype, DType::f32);
}

TEST(Manifest, OneThatDoesNotCountUpdatesHasMadeOneAStep) {
  Manifest manifest = full();
  manifest.updates = 298;
  std::string text = manifest_text(manifest);
  EXPECT_EQ(parse_manifest(text, "m").updates, 298);
  const std::string field = "  \"updates\": 298,\n";
  ASSERT_NE(text.find(field), std::string::npos);
  text.erase(text.find(field), field.size());
  EXPECT_EQ(parse_manifest(sealed_again(text), "m").updates, 300);
  manifest.updates = -1;
  EXPECT_THROW(parse_manifest(manifest_text(manifest), "m"), UserError);
}

TEST(Manifest, LossesThatAreNoNumbersAreAbsent) {
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const Manifest read = parse_manifest(manifest_text(sample_manifest(1, loss)), "m");
    EXPECT_FALSE(read.validation_loss.has_value());
    EXPECT_FALSE(read.best_validation_loss.has_value());
  }
}

TEST(Manifest, EveryChangedByteIsNoticed) {
  const std::string text = manifest_text(full());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int flip : {1, 2, 8, 64, 128}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      EXPECT_THROW(parse_manifest(damaged, "m"), UserError) << "byte " << i << " of " << text;
    }
  }
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_THROW(parse_manifest(text.substr(0, size), "m"), UserError) << size;
}

TEST(Manifest, SaysWhatIsWrong) {
  const auto complaint = [](const std::string& text) {
    return complaint_of([&] { parse_manifest(text, "some/manifest.json"); });
  };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "some/manifest.json", complaint("{"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not the manifest", complaint("[1]"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not the manifest", complaint(R"({"format": "other"})"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "damaged or edited", complaint(R"({"format": "lockstep checkpoint"})"));
  std::string edited = manifest_text(full());
  edited.replace(edited.find("300"), 3, "301");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "damaged or edited", complaint(edited));
}

TEST(Manifest, RefusesSealedNonsense) {
  const auto complaint = [](auto change) { return complaint_of([&] { parse_manifest(rewritten(change), "m"); }); };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "is not the name of a file",
                      complaint([](Manifest& m) { m.files[0].name = "../../etc/passwd"; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "is not the name of a file", complaint([](Manifest& m) { m.files[0].name = ".."; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not among the files", complaint([](Manifest& m) { m.tensors[0].file = "other"; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "no model computes in I32", complaint([](Manifest& m) { m.dtype = DType::i32; }));
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"step\" is -5, but must be from 0", complaint([](Manifest& m) { m.step = -5; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"global_batch\" is 9223372036854775807",
                      complaint([](Manifest& m) { m.global_batch = most; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"next_sample\" is -1", complaint([](Manifest& m) { m.next_sample = -1; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"tokens_seen\" is -1", complaint([](Manifest& m) { m.tokens_seen = -1; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"bytes\" is", complaint([](Manifest& m) { m.files[0].bytes = most; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "and more elements",
                      complaint([](Manifest& m) { m.tensors[0].tensor.shape = {1 << 30, 1 << 30, 1 << 30}; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "and more elements",
                      complaint([](Manifest& m) { m.tensors[0].tensor.shape = {0, 1 << 30, 1 << 30}; }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "no error", complaint([](Manifest&) {}));
}

}  // namespace
}  // namespace lockstep::checkpoint
