// The planner's times and memory against rows that others measured, by fits that have not seen a model's rows too.

#include "planner/published_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "io/file.h"
#include "support/test_data.h"

namespace lockstep::planner {
namespace {

PublishedFile file_of(std::string_view name) {
  return published_rows(io::read_file(test_data("published") / name), std::string(name), nullptr);
}

const std::vector<PublishedRow>& foundry() {
  static const std::vector<PublishedRow> rows = file_of("llm-foundry.csv").rows;
  return rows;
}

/// Rows of a device; of all where `gpu` is empty.
std::vector<const PublishedRow*> of_device(std::string_view gpu) {
  std::vector<const PublishedRow*> rows;
  for (const PublishedRow& row : foundry())
    if (gpu.empty() || row.gpu == gpu) rows.push_back(&row);
  return rows;
}

constexpr std::array kFitted{&System::product_part, &System::attention_part, &System::memory_part, &System::contention,
                             &System::hop_seconds};

/// Each number changed alone as long as that helps, in smaller and smaller steps; single rows that are far off count little.
System fitted(const std::vector<PublishedRow>& rows, std::string_view without) {
  System system = fsdp;
  for (const auto number : kFitted) system.*number *= 0.8;  // no start at the answer
  const auto loss = [&](const System& tried) {
    double sum = 0;
    for (const PublishedRow& row : rows) {
      System own = row.system;
      for (const auto number : kFitted) own.*number = tried.*number;
      if (row.name != without) sum += std::log1p(std::pow(std::log1p(row.error(own)) / 0.08, 2));
    }
    return sum;
  };
  double least = loss(system);
  for (double step = 0.16; step > 0.005; step /= 2) {
    for (bool better = true; better;) {
      better = false;
      for (const auto number : kFitted) {
        for (const double factor : {1 + step, 1 / (1 + step)}) {
          System tried = system;
          tried.*number *= factor;
          const double found = loss(tried);
          if (found >= least) continue;
          least = found;
          system = tried;
          better = true;
        }
      }
    }
  }
  return system;
}

std::vector<double> errors_by(const std::vector<const PublishedRow*>& rows, const System& numbers) {
  std::vector<double> errors;
  for (const PublishedRow* row : rows) {
    System own = row->system;
    for (const auto number : kFitted) own.*number = numbers.*number;
    errors.push_back(row->error(own));
  }
  return errors;
}

/// Needs the rows themselves.
class PublishedTables : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(test_data("published"))) GTEST_SKIP() << test_data("published").string() << " is not here";
  }
};

TEST_F(PublishedTables, FsdpIsTrueOnEachDeviceAndBetterThanOneConstant) {
  ASSERT_EQ(foundry().size(), 146U);
  const Score all = score_of(errors_by(of_device(""), fsdp));
  EXPECT_GE(static_cast<double>(all.within_10), 0.88 * 146);
  EXPECT_GE(static_cast<double>(all.within_20), 0.97 * 146);
  for (const char* gpu : {"a100_40gb", "a100_80gb", "h100_80gb"}) {
    const std::vector<const PublishedRow*> rows = of_device(gpu);
    const Score own = score_of(errors_by(rows, fsdp)), constant = constant_score(rows);
    EXPECT_GT(own.within_10, constant.within_10 * 13 / 10) << gpu;
    EXPECT_GT(own.within_20, constant.within_20 * 12 / 10) << gpu;
    EXPECT_LT(std::abs(own.median), 0.05) << gpu;
  }
}

TEST_F(PublishedTables, FitsThatHaveNotSeenAModelTellItToo) {
  std::set<std::string> models;
  for (const PublishedRow& row : foundry()) models.insert(row.name);
  ASSERT_EQ(models.size(), 6U);
  std::vector<double> errors;
  for (const std::string& model : models) {
    std::vector<const PublishedRow*> unseen;
    for (const PublishedRow& row : foundry())
      if (row.name == model) unseen.push_back(&row);
    const std::vector<double> own = errors_by(unseen, fitted(foundry(), model));
    errors.insert(errors.end(), own.begin(), own.end());
  }
  const Score score = score_of(std::move(errors));
  RecordProperty("within_10", static_cast<int>(score.within_10));
  RecordProperty("within_20", static_cast<int>(score.within_20));
  EXPECT_GE(static_cast<double>(score.within_10), 0.85 * 146);
  EXPECT_GE(static_cast<double>(score.within_20), 0.95 * 146);
}

TEST_F(PublishedTables, TheNumbersAreThoseOfTheFit) {
  const System fit = fitted(foundry(), "");
  for (const auto number : kFitted) EXPECT_NEAR(fsdp.*number / (fit.*number), 1, 0.1) << "the fit ends near where it began";
}

TEST_F(PublishedTables, TorchtitanIsTrueInTimeAndMemory) {
  const PublishedFile file = file_of("torchtitan.csv");
  ASSERT_EQ(file.rows.size(), 8U);
  int memory = 0;
  for (const PublishedRow& row : file.rows) {
    EXPECT_LE(std::abs(row.error()), 0.1) << row.name << " " << row.machine.ranks();
    if (row.memory == 0) continue;
    ++memory;
    EXPECT_NEAR(row.predicted_memory() / row.memory, 1, 0.05) << row.name << " " << row.machine.ranks();
  }
  EXPECT_EQ(memory, 4);
  EXPECT_EQ(regret_of(file.rows).worst, 0) << "what is fastest comes first";
}

constexpr std::string_view kNeeded = "gpu,gpus,n_layer,n_head,n_embd,vocab,seq,micro_batch,tokens_per_s_per_gpu";

TEST(PublishedRows, WhatARowDoesNotSayIsUsual) {
  const PublishedFile file =
      published_rows(std::string(kNeeded) + "\r\nh100_80gb,16,2,4,256,1000,128,3,500\r\n\r\n", "f", nullptr);
  ASSERT_EQ(file.rows.size(), 1U);
  const PublishedRow& row = file.rows.front();
  EXPECT_EQ(row.system.name, "fsdp");
  EXPECT_EQ(row.machine.name, "h100");
  EXPECT_EQ(row.machine.nodes, 2);
  EXPECT_EQ(row.candidate.plan.dp, 16);
  EXPECT_EQ(row.candidate.plan.microbatches, 1);
  EXPECT_EQ(layout::zero_level(row.candidate.plan), 3);
  EXPECT_EQ(row.candidate.plan.reduce, layout::ReduceEvery::microbatch);
  EXPECT_EQ(row.model.ffn_width, 1024);
  EXPECT_FALSE(row.model.gated);
  EXPECT_EQ(
      published_rows(std::string(kNeeded) + "\nh100_80gb,16,2,4,256,1000,128,3,500\n", "f", &torchtitan).rows.front().system.name,
      "torchtitan");
}

TEST(PublishedRows, RowsOfOtherKindsAreLeftOutAndCounted) {
  const std::string columns = std::string(kNeeded) + ",dtype,activation_offload\n";
  const PublishedFile file = published_rows(
      columns + "h100,8,2,4,256,1000,128,3,500,amp_fp8,false\nh100,8,2,4,256,1000,128,3,500,bf16,true\n", "f", nullptr);
  EXPECT_TRUE(file.rows.empty());
  EXPECT_EQ(file.left_out, 2);
}

TEST(PublishedRows, AFileThatIsNoneIsRefusedWithItsLine) {
  const auto refusal = [](const std::string& csv) {
    try {
      published_rows(csv, "f.csv", nullptr);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_NE(refusal("a,b\n1,2\n").find("f.csv:1: no column gpus\n"), std::string::npos) << refusal("a,b\n1,2\n");
  const std::string head = std::string(kNeeded) + "\n";
  EXPECT_NE(refusal(head + "h100,8\n").find("f.csv:2: 2 cells, 9 columns"), std::string::npos);
  EXPECT_NE(refusal(head + "h100,8,x,4,256,1000,128,3,500\n").find("f.csv:2: n_layer = x: must be a whole number"),
            std::string::npos);
  EXPECT_NE(refusal(head + "h100,8,2,4,256,1000,128,3,-1\n").find("tokens_per_s_per_gpu = -1: must be above 0"),
            std::string::npos);
  EXPECT_NE(refusal(head + "h9000,8,2,4,256,1000,128,3,1\n").find("gpu = h9000: there is no such preset"), std::string::npos);
}

TEST(PublishedRows, TheFirstLayoutsRegretIsCounted) {
  std::string rows = std::string(kNeeded) + ",recompute\n";
  rows += "a100,8,2,4,512,1000,128,8,500,none\na100,8,2,4,512,1000,128,8,600,full\na100,8,3,4,512,1000,128,8,600,full\n";
  const Regret regret = regret_of(published_rows(rows, "f", nullptr).rows);
  EXPECT_EQ(regret.choices, 1U);
  EXPECT_EQ(regret.best, 0U) << "recomputation was measured to be faster";
  EXPECT_NEAR(regret.worst, 0.2, 1e-12);
}

}  // namespace
}  // namespace lockstep::planner
