#include "planner/product_advice.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::planner {
namespace {

arch::ModelConfig sized(std::int64_t layers, std::int64_t heads, std::int64_t width, std::int64_t ffn_width,
                        std::int64_t vocabulary) {
  arch::ModelConfig model;
  model.layers = layers;
  model.heads = model.kv_heads = heads;
  model.width = width;
  model.head_size = width / heads;
  model.ffn_width = ffn_width;
  model.vocabulary = vocabulary;
  return model;
}

ProductCase llama_7b() {
  ProductCase of{.model = sized(32, 32, 4096, 11008, 32000), .microbatch = {2, 2048}};
  of.model.gated = true;
  return of;
}

const ModelProduct& named(const std::vector<ModelProduct>& products, std::string_view name) {
  return *std::ranges::find(products, name, &ModelProduct::name);
}

const ProductChange* change_of(const std::vector<ProductChange>& changes, std::string_view key) {
  const auto found = std::ranges::find_if(changes, [&](const ProductChange& change) { return change.setting.starts_with(key); });
  return found == changes.end() ? nullptr : &*found;
}

// (m, k, n) of arXiv 2401.14489, table 2, with t ranks a layer.
TEST(ProductAdvice, ProductsAreThoseOfATransformer) {
  ProductCase of;
  of.model = sized(12, 16, 1024, 4096, 50304);
  of.microbatch = {8, 512};
  of.tensor = 4;
  const std::vector<ModelProduct> products = forward_products(of);
  const auto expect = [&](std::string_view name, std::int64_t m, std::int64_t k, std::int64_t n, std::int64_t batch) {
    const ModelProduct& product = named(products, name);
    EXPECT_EQ(product.m, m) << name;
    EXPECT_EQ(product.k, k) << name;
    EXPECT_EQ(product.n, n) << name;
    EXPECT_EQ(product.batch, batch) << name;
  };
  expect("qkv", 4096, 1024, 3 * 1024 / 4, 1);
  expect("scores", 512, 64, 512, 8 * 16 / 4);
  expect("values", 512, 512, 64, 8 * 16 / 4);
  expect("attention out", 4096, 1024 / 4, 1024, 1);
  expect("mlp up", 4096, 1024, 4 * 1024 / 4, 1);
  expect("mlp down", 4096, 4 * 1024 / 4, 1024, 1);
  expect("logits", 4096, 1024, 50304 / 4, 1);
  of.model.gated = true;
  EXPECT_EQ(named(forward_products(of), "mlp up").n, 2 * 4096 / 4);
}

TEST(ProductAdvice, SizesAreNamedThatAreNoMultipleOf64) {
  EXPECT_EQ((ModelProduct{"", 128, 64, 192, 1, 1}).misaligned(), "");
  EXPECT_EQ((ModelProduct{"", 128, 65, 8, 1, 1}).misaligned(), "k, n");
}

TEST(ProductAdvice, AVocabularyIsRoundedUpForAllRanks) {
  ProductCase of = llama_7b();
  of.model.vocabulary = 32001;
  of.tensor = 2;
  const std::vector<ProductChange> changes = product_changes(of, *find_machine("a100"));
  const ProductChange* change = change_of(changes, "model.vocab_size");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->setting, "model.vocab_size=32128");
  EXPECT_TRUE(change->aligns);
  EXPECT_TRUE(std::ranges::is_sorted(changes, std::greater<>(), &ProductChange::gain));
}

// 129 columns take two tiles of 128: forward and in the weight's gradient twice the waves, in the input's none more.
TEST(ProductAdvice, AGainIsThatOfTheTilesThatItSaves) {
  ProductCase of;
  of.model = sized(0, 216, 108 * 128, 512, 129);
  of.microbatch = {108, 1024};
  Machine machine = *find_machine("a100");
  machine.memory_rate = 1e30;  // products alone count
  const double with_129 = products_seconds(of, machine);
  of.model.vocabulary = 128;
  const double with_128 = products_seconds(of, machine);
  EXPECT_NEAR(with_129 / with_128, 5.0 / 3, 0.01);
}

TEST(ProductAdvice, HeadsBecomeLargerAndAMultipleOf64) {
  ProductCase of = llama_7b();
  of.model.heads = of.model.kv_heads = 64;
  of.model.head_size = 64;
  const std::vector<ProductChange> larger = product_changes(of, *find_machine("a100"));
  const ProductChange* change = change_of(larger, "model.n_head");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->setting, "model.n_head=32");
  EXPECT_FALSE(change->aligns);  // 64 is one already; tiles of 128 columns are half empty
  EXPECT_GT(change->gain, 1.05);
  of.model.width = 2560;
  of.model.heads = of.model.kv_heads = 32;  // of 80, as GPT-3 2.7B
  of.model.head_size = 80;
  const std::vector<ProductChange> aligned = product_changes(of, *find_machine("a100"));
  change = change_of(aligned, "model.n_head");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->setting, "model.n_head=20");
  EXPECT_TRUE(change->aligns);
  of.model.kv_heads = 8;  // does not divide 20
  EXPECT_EQ(change_of(product_changes(of, *find_machine("a100")), "model.n_head"), nullptr);
}

TEST(ProductAdvice, AFeedForwardWidthGoesToTheNearestMultiple) {
  ProductCase of = llama_7b();
  of.model.ffn_width = 10922;
  const std::vector<ProductChange> changes = product_changes(of, *find_machine("a100"));
  const ProductChange* change = change_of(changes, "model.ffn_width");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->setting, "model.ffn_width=10944");
  EXPECT_NE(change->reason.find("bench swiglu"), std::string::npos);
  of.model.width = 4000;
  of.model.head_size = 125;
  const std::vector<ProductChange> wider = product_changes(of, *find_machine("a100"));
  ASSERT_NE(change_of(wider, "model.n_embd"), nullptr);
  EXPECT_EQ(change_of(wider, "model.n_embd")->setting, "model.n_embd=4096");
  // With as many heads the next width would be two thirds larger.
  of.model.width = 760;
  of.model.heads = of.model.kv_heads = 20;
  of.model.head_size = 38;
  const std::vector<ProductChange> narrow = product_changes(of, *find_machine("a100"));
  ASSERT_NE(change_of(narrow, "model.n_embd"), nullptr);
  EXPECT_EQ(change_of(narrow, "model.n_embd")->setting, "model.n_embd=768 model.n_head=12");
  of.model.head_size = 64;  // of its own
  EXPECT_EQ(change_of(product_changes(of, *find_machine("a100")), "model.n_embd")->setting, "model.n_embd=768");
}

// (b a) / t is to be a whole number, and t small.
TEST(ProductAdvice, RanksOfALayerDivideTheHeadsAndAreFew) {
  ProductCase of = llama_7b();
  of.tensor = 8;
  const std::vector<ProductChange> fewer = product_changes(of, *find_machine("a100"));
  const ProductChange* change = change_of(fewer, "parallel.tp");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->setting, "parallel.tp=4");
  EXPECT_GT(change->gain, 1);
  of.microbatch.samples = 1;
  of.model.heads = of.model.kv_heads = 20;
  of.model.width = 2560;
  const std::vector<ProductChange> uneven = product_changes(of, *find_machine("a100"));
  change = change_of(uneven, "parallel.tp");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->setting, "parallel.tp=5");
  EXPECT_NE(change->reason.find("1 samples x 20 heads are not divided evenly by 8 ranks"), std::string::npos);
}

TEST(ProductAdvice, WhatFillsTilesIsLeftAlone) {
  const std::vector<ProductChange> changes = product_changes(llama_7b(), *find_machine("a100"));
  EXPECT_EQ(change_of(changes, "model.vocab_size"), nullptr);
  EXPECT_EQ(change_of(changes, "model.n_head"), nullptr);
  EXPECT_EQ(change_of(changes, "model.n_embd"), nullptr);
  EXPECT_EQ(change_of(changes, "model.ffn_width"), nullptr);
  EXPECT_EQ(change_of(changes, "parallel.tp"), nullptr);
}

}  // namespace
}  // namespace lockstep::planner
