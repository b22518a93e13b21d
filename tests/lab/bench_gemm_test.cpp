#include "lab/bench_gemm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "lab/step/step_shapes.h"
#include "ops/cpu/library/library.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {
namespace {

TEST(GemmShapes, AreThoseOfTheModels) {
  for (const std::string& model : step_shape_names()) {
    const std::vector<LayerShape> layers = layer_shapes(model);
    EXPECT_GE(layers.size(), 5U) << model;
    // A step takes each layer forward and backward; a gate is apart only forward.
    std::int64_t forward = 0, backward = 0;
    for (const LayerShape& layer : layers) {
      if (layer.forward) forward += layer.calls * layer.tokens * layer.out * layer.in;
      if (layer.backward) backward += layer.calls * layer.tokens * layer.out * layer.in;
    }
    EXPECT_EQ(forward, backward) << model;
  }
  const LayerShape head = layer_shapes("gpt2:1x1024").back();
  EXPECT_EQ(head.tokens, 256);
  EXPECT_EQ(head.out, 50304);
  EXPECT_EQ(head.in, 768);
  EXPECT_EQ(head.calls, 4);
  EXPECT_THROW(layer_shapes("gpt5"), UserError);
}

// C (+)= A B of small whole numbers, which every library must find exactly.
TEST(Rivals, ComputeTheProduct) {
  for (const auto& rival : {open_onednn(2), open_openblas(2)}) {
    if (!rival) continue;
    EXPECT_FALSE(rival->name().empty());
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        for (const bool accumulate : {false, true}) {
          std::vector<float> a(5 * 7), b(7 * 3), c(5 * 3, 2.0F);
          for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 5) - 2;
          for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
          rival->prepare({5, 3, 7, a_transposed, b_transposed, accumulate}, a.data(), b.data(), c.data())();
          for (std::size_t i = 0; i < 5; ++i) {
            for (std::size_t j = 0; j < 3; ++j) {
              float sum = accumulate ? 2.0F : 0.0F;
              for (std::size_t k = 0; k < 7; ++k)
                sum += (a_transposed ? a[k * 5 + i] : a[i * 7 + k]) * (b_transposed ? b[j * 7 + k] : b[k * 3 + j]);
              EXPECT_EQ(c[i * 3 + j], sum) << rival->name();
            }
          }
        }
      }
    }
  }
}

TEST(GemmBench, MeasuresEveryContender) {
  const auto runtime = open_runtime({}, {.threads = 2});
  GemmBench bench(*runtime, {.rounds = 1, .sample_seconds = 1e-4});
  for (const ProductKind kind : {ProductKind::forward, ProductKind::backward_input, ProductKind::backward_weight}) {
    const GemmRow row = bench.measure("small", {"layer", 20, 30, 40, 1}, kind);
    EXPECT_GT(row.ours.median, 0);
    EXPECT_EQ(row.onednn.median > 0, ops::cpu::has_library());
    EXPECT_LE(row.fastest().room, row.ours.room);
    EXPECT_EQ(row.flops(), 48000);
  }
  EXPECT_GT(bench.measure_heads(6, 16, 16, 8, true).best, 0);
  EXPECT_EQ(bench.contenders().front(), "lockstep");
}

TEST(GemmBench, Bf16StandsBesideFp32) {
  const auto runtime = open_runtime({}, {.threads = 2});
  GemmBench bench(*runtime, {.rounds = 1, .sample_seconds = 1e-4, .type = DType::bf16});
  for (const ProductKind kind : {ProductKind::forward, ProductKind::backward_input, ProductKind::backward_weight}) {
    const GemmRow row = bench.measure("small", {"layer", 20, 30, 40, 1}, kind);
    EXPECT_GT(row.ours.median, 0);
    EXPECT_GT(row.ours_f32.median, 0);
    EXPECT_EQ(row.other_order.median > 0, ops::has_instruction_of(other_than(ops::usual_bf16_order())));
    EXPECT_EQ(row.openblas.median, 0);
  }
}

GemmReport known() {
  GemmReport report;
  report.threads = 2;
  report.contenders = {"lockstep", "oneDNN"};
  report.rows = {{"tiny", {"qkv", 1000, 1000, 50, 4}, ProductKind::forward, {1e-3, 1e-3, 2e8}, {2e-3, 2e-3, 4e8}, {}},
                 {"tiny",
                  {"head", 1000, 1000, 50, 1},
                  ProductKind::backward_weight,
                  {4e-3, 4e-3, 8e8},
                  {3e-3, 3e-3, 6e8},
                  {2e-3, 2e-3, 4e8}}};
  return report;
}

TEST(GemmReport, ComparesWithTheFasterLibrary) {
  const GemmReport report = known();
  EXPECT_NEAR(report.geometric_mean(), 1.0, 1e-12);
  EXPECT_NEAR(report.worst_ratio(), 0.5, 1e-12);
  EXPECT_NE(answer_of(report).text().find("100.0"), std::string::npos) << answer_of(report).text();
  EXPECT_NE(answer_of(report).text().find("ours 8.0"), std::string::npos) << answer_of(report).text();
  EXPECT_NE(answer_of(report).text().find("50 %"), std::string::npos) << answer_of(report).text();
  const Answer json = answer_of(report);
  EXPECT_EQ(json.at("rows").array().size(), 2U);
  EXPECT_TRUE(json.at("rows").array()[0].at("openblas").is_null());
  EXPECT_EQ(GemmReport().geometric_mean(), 0);
}

TEST(GemmReport, ComparesBf16WithFp32) {
  GemmReport report = known();
  EXPECT_EQ(report.mean_against_f32(), 0);
  report.type = DType::bf16;
  report.rows[0].ours_f32 = {2e-3, 2e-3, 4e8};
  report.rows[1].ours_f32 = {2e-3, 2e-3, 4e8};
  EXPECT_NEAR(report.mean_against_f32(), 1.0, 1e-12);
  EXPECT_NE(answer_of(report).text().find("bf16 against our fp32"), std::string::npos) << answer_of(report).text();
  EXPECT_NE(answer_of(report).text().find("ours 8.0, in fp32"), std::string::npos) << answer_of(report).text();
  EXPECT_EQ(answer_of(report).at("dtype").string(), "bf16");
}

// The rule does not measure; where it is wrong, that is said.
TEST(GemmReport, SaysWhenTheOtherOrderOfBf16ProductsIsFaster) {
  GemmReport report = known();
  report.type = DType::bf16;
  report.order = ops::Bf16Order::widened;
  EXPECT_EQ(report.mean_of_other_order(), 0);
  for (GemmRow& row : report.rows) row.other_order = {1e-3, 1e-3, row.ours.room / 1.5};
  EXPECT_NEAR(report.mean_of_other_order(), 1.5, 1e-12);
  const std::string other(name_of(other_than(report.order)));
  EXPECT_NE(answer_of(report).text().find(other + " against that: geometric mean 1.500"), std::string::npos)
      << answer_of(report).text();
  EXPECT_EQ(
      order_note(report.order, 1.5),
      fmt::format(
          "numerics.bf16=auto takes widened on this processor, but {0} is 1.50 x as fast: numerics.bf16={0} for new bf16 runs",
          other));
  EXPECT_NE(order_note(ops::Bf16Order::pairs, 1.5).find("but widened is 1.50 x as fast"), std::string::npos);
  EXPECT_EQ(order_note(report.order, 1.05), "");
  EXPECT_EQ(order_note(report.order, 0), "");
}

// What counts is a time beside the rate of its own moments: this machine halved its speed while ours was measured.
TEST(GemmReport, ComparesByTheRateOfTheSameMoments) {
  GemmReport report = known();
  report.rows.resize(1);
  report.rows[0].ours = {4e-3, 4e-3, 3e8};
  EXPECT_NEAR(report.geometric_mean(), 4.0 / 3, 1e-12);
  EXPECT_EQ(report.rows[0].fastest().room, 3e8);
  EXPECT_NEAR(report.rows[0].share(report.rows[0].ours), 1.0 / 3, 1e-12);
  EXPECT_EQ(report.rows[0].share({}), 0);
}

TEST(GemmReport, SaysWhenOpenBlasIsHeldBack) {
  const auto runtime = open_runtime({}, {.threads = 1});
  setenv("OPENBLAS_L2_SIZE", "512", 1);
  const GemmReport report = bench_gemm(*runtime, {.models = {}, .rounds = 1, .rivals = false});
  unsetenv("OPENBLAS_L2_SIZE");
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(answer_of(report).text().find("OPENBLAS_L2_SIZE is set"), std::string::npos);
}

// A processor with AVX2 or more runs its kernels for it, known or not, unless OPENBLAS_CORETYPE is set.
TEST(Rivals, OpenBlasIsToldItsProcessor) {
  const auto rival = open_openblas(1);
  if (!rival || __builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "no OpenBLAS, or nothing to tell it";
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) GTEST_SKIP() << "it was told";
  EXPECT_EQ(rival->note(), "") << rival->name();
}

}  // namespace
}  // namespace lockstep::lab
