// `lockstep plan published FILE.csv`, and other systems' steps.

#include <gtest/gtest.h>

#include "app/plan_command.h"
#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

constexpr const char* kRows =
    "source,gpu,gpus,model,n_layer,n_head,n_embd,vocab,seq,micro_batch,dtype,tokens_per_s_per_gpu,memory_gib\n"
    "torchtitan,h100_80gb,8,tiny,2,4,512,1000,1024,8,bf16,100000,4\n"
    "x,a100_80gb,8,tiny,2,4,512,1000,1024,8,bf16,100000,\n"
    "x,a100_80gb,8,tiny,2,4,512,1000,1024,8,fp8,100000,\n";

TEST(PlanPublished, AFileOfRowsGetsALineForEachSystemAndDevice) {
  const TempFolder folder;
  const std::string file = (folder / "rows.csv").string();
  io::replace_file(file, kRows);
  const std::string text = told({"published", file});
  EXPECT_NE(text.find("\nfsdp a100_80gb 1 "), std::string::npos) << text;
  EXPECT_NE(text.find("\ntorchtitan h100_80gb 1 "), std::string::npos) << text;
  EXPECT_NE(text.find("\ntiny 8 4.0 GiB "), std::string::npos) << "memory where it is published\n" << text;
  EXPECT_NE(text.find("1 rows of fp8"), std::string::npos) << text;
  const Json answer = Json::parse(printed({"published", file, "--json"}));
  EXPECT_EQ(answer.at("rows").array().size(), 2U);
  EXPECT_EQ(answer.at("kinds").array().at(0).at("constant_10").number(), 1);
  EXPECT_NE(told({"published", file, "--system", "megatron"}).find("\nmegatron h100_80gb 1 "), std::string::npos);
}

TEST(PlanPublished, WhatCannotBeReadIsRefused) {
  EXPECT_NE(refusal({"published", "--system", "fsdp"}).find("plan published FILE.csv --system fsdp"), std::string::npos);
  EXPECT_NE(refusal({"published", "no.csv"}).find("no.csv"), std::string::npos);
}

TEST(PlanPublished, AStepIsSimulatedAsAnotherSystemRunsIt) {
  const TempFolder folder;
  const std::string recipe = (folder / "r.toml").string();
  io::replace_file(recipe,
                   "[model]\nn_layer = 4\nn_head = 8\nn_embd = 1024\nblock_size = 1024\nbatch_size = 4\n[optimizer]\ngas = 4\n"
                   "[train]\ndtype = \"bf16\"\n[parallel]\ndp = 8\n[memory]\nzero = 3\n");
  const auto step = [&](const std::string& system) {
    return Json::parse(printed({"simulate", recipe, "--machine", "h100", "--system", system, "--json"}));
  };
  const Json own = step("lockstep"), fsdp = step("fsdp");
  EXPECT_GT(fsdp.at("step_seconds").number(), 1.2 * own.at("step_seconds").number());
  EXPECT_EQ(fsdp.at("system").string(), "fsdp");
  EXPECT_NE(printed({"simulate", recipe}).find("lockstep has not run on GPUs"), std::string::npos);
  EXPECT_EQ(printed({"simulate", recipe, "--system", "fsdp"}).find("lockstep has not run"), std::string::npos);
  EXPECT_NE(refusal({"simulate", recipe, "--system", "jax"}).find("is not one of lockstep|megatron|fsdp|torchtitan|deepspeed"),
            std::string::npos);
}

TEST(PlanPublished, AWinnerIsWrittenAsItsSystemTakesIt) {
  const TempFolder folder;
  const std::string file = (folder / "winner").string();
  const auto written = [&](const std::string& model, const std::string& machine, const std::string& gpus,
                           const std::string& system) {
    printed({"search", model, machine, "--gpus", gpus, "--global-batch", "64", "--system", system, "--out", file});
    return io::read_file(file);
  };
  const std::string megatron = written("llama3_8B", "h100", "16", "megatron");
  for (const char* line : {"--num-layers 32\n", "--group-query-attention\n--num-query-groups 8\n", "\n--swiglu\n",
                           "\n--global-batch-size 64\n", "\n--untie-embeddings-and-output-weights\n", "\n--bf16\n"})
    EXPECT_NE(megatron.find(line), std::string::npos) << megatron;
  const std::string titan = written("llama3_8B", "h100", "16", "torchtitan");
  EXPECT_TRUE(titan.starts_with("--training.local_batch_size ")) << titan;
  EXPECT_NE(titan.find("\n--parallelism.data_parallel_shard_degree "), std::string::npos) << titan;
  EXPECT_NE(titan.find("\n--compile.enable\n"), std::string::npos) << "as its times are told\n" << titan;
  const Json json = Json::parse(written("gpt2_xl", "a100", "8", "deepspeed"));
  EXPECT_EQ(json.at("train_batch_size").integer(),
            8 * json.at("train_micro_batch_size_per_gpu").integer() * json.at("gradient_accumulation_steps").integer());
  EXPECT_TRUE(json.at("bf16").at("enabled").boolean());
  EXPECT_NE(refusal({"search", "gpt2", "a100", "--system", "fsdp", "--global-batch", "64", "--out", file}).find("users' code"),
            std::string::npos);
}

TEST(PlanPublished, ASearchForAnotherSystemHasItsLayoutsAndNoCommandOfOurs) {
  const std::string text = told({"search", "gpt2_xl", "h100", "--global-batch", "64", "--system", "fsdp", "--top", "2"});
  EXPECT_EQ(text.find("lockstep launch"), std::string::npos) << text;
  EXPECT_NE(text.find("\nTP + PP - fsdp has none for these ranks\n"), std::string::npos) << text;
  EXPECT_NE(text.find("reduce=microbatch"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::app
