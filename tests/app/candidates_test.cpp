#include <gtest/gtest.h>

#include "app/cli/commands.h"
#include "app/help/completion.h"
#include "app/help/help.h"

namespace lockstep::app {
namespace {

Candidates found(const std::vector<std::string>& words) {
  static const CommandSheet program =
      program_sheet(with_help({train_command(), generate_command(), plan_command(), launch_command()}), true);
  return candidates_for(program, words);
}

std::vector<std::string> words(const std::vector<std::string>& typed) {
  std::vector<std::string> all;
  for (const HelpRow& row : found(typed).words) all.push_back(row.left);
  return all;
}

using List = std::vector<std::string>;

TEST(Candidates, Commands) {
  EXPECT_EQ(words({""}), (List{"train", "generate", "plan", "launch", "help", "completion", "schema"}));
  EXPECT_EQ(words({"pl"}), List{"plan"});
  EXPECT_EQ(words({"plan", "dr"}), List{"draw"});
  EXPECT_EQ(words({"--color", "a"}), (List{"auto", "always"}));
  EXPECT_EQ(words({"--color", "never", "tr"}), List{"train"});
  EXPECT_EQ(words({"nothing", ""}), List{});
}

TEST(Candidates, OptionsAndTheirValues) {
  EXPECT_EQ(words({"train", "--co"}), (List{"--config", "--color"}));
  EXPECT_EQ(words({"generate", "--dtype", "bf"}), (List{"bf16", "bfloat16"}));
  EXPECT_EQ(words({"generate", "--dtype=st"}), List{"--dtype=stored"});
  EXPECT_EQ(words({"generate", "--mo"}), List{"--model"});
  EXPECT_EQ(words({"generate", "--isa", "avx5"}), (List{"avx512", "avx512_bf16"}));
  EXPECT_EQ(words({"generate", "--checkpoint", ""}), (List{"best", "last"}));
  EXPECT_EQ(found({"plan", "simulate", "x.toml", "--machine", ""}).places, Places::files);
  EXPECT_EQ(found({"train", "--config", ""}).places, Places::files);
  EXPECT_EQ(found({"train", "--config=con"}).places, Places::files);
  EXPECT_EQ(found({"generate", "--model", ""}).places, Places::files);
  EXPECT_EQ(found({"help", "--man-pages", ""}).places, Places::none) << "help offers topics";
  EXPECT_EQ(found({"generate", "--prompt", ""}).places, Places::none);
  EXPECT_EQ(found({"generate", ""}).places, Places::files);
  EXPECT_EQ(found({"plan", "check", ""}).places, Places::folders);
  EXPECT_EQ(found({"generate", "runs/first", ""}).places, Places::none) << "it takes one";
}

TEST(Candidates, Settings) {
  EXPECT_EQ(words({"train", "trai"}), (List{"train.", "train="}));
  EXPECT_EQ(words({"train", "train.max_i"}), List{"train.max_iters="});
  EXPECT_EQ(words({"train", "max_i"}), List{"max_iters="});
  EXPECT_EQ(words({"train", "data/book", "train.dtype=b"}), (List{"train.dtype=bfloat16", "train.dtype=bf16"}));
  EXPECT_EQ(words({"train", "model.bias="}), (List{"model.bias=true", "model.bias=false"}));
  EXPECT_EQ(words({"train", "model=llama3_8"}), List{"model=llama3_8B"});
  EXPECT_EQ(found({"train", "log.dir=ru"}).places, Places::files);
  EXPECT_EQ(words({"generate", "train.max_i"}), List{});
  EXPECT_EQ(words({"plan", "draw", "parallel.sch"}), List{"parallel.schedule="});
  EXPECT_EQ(words({"plan", "draw", "parallel.schedule=zb"}), List{}) << "a text of a form";
  EXPECT_EQ(words({"plan", "draw", "train.dtype="}), List{});
}

TEST(Candidates, WhatIsLaunched) {
  EXPECT_EQ(words({"launch", "-n", "2", "tr"}), List{"train"});
  EXPECT_EQ(words({"launch", "-n", "2", "train", "--conf"}), List{"--config"});
  EXPECT_EQ(words({"launch", "--ret"}), List{"--retries"});
}

TEST(Candidates, TopicsOfHelpAndShells) {
  EXPECT_EQ(words({"help", "conf"}), List{"config"});
  EXPECT_EQ(words({"help", "plan", "dr"}), List{"draw"});
  EXPECT_EQ(words({"help", "config", "optimizer.gr"}), List{"optimizer.grad_clip"});
  EXPECT_EQ(words({"help", "config", "opt"}), List{"optimizer"});
  EXPECT_EQ(words({"completion", ""}), (List{"bash", "zsh", "fish"}));
}

}  // namespace
}  // namespace lockstep::app
