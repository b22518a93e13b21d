// Files of settings that know other groups or names than this program.

#include "app/settings/config_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::app {
namespace {

using List = std::vector<std::string>;

List problems_of(std::string_view text) {
  RunConfig config;
  List all;
  for (const Problem& problem : read_config_text(text, "r.toml", config))
    all.push_back(problem.message + " -> " + problem.remedy);
  return all;
}

TEST(ConfigText, JsonIsToldWhereDeepSpeedsFilesGo) {
  const List found = problems_of("\n{\"optimizer\": {\"type\": \"AdamW\"}}\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found.front().ends_with("-> a file of DeepSpeed's is train.ds_config_path=r.toml")) << found.front();
}

TEST(ConfigText, KeysOfUnknownGroupsAreLookedUpLikeOthers) {
  const List found = problems_of(
      "[optimizr]\n"
      "learning_rate = 1\n"
      "[optimzer]\n"
      "learning_rte = 1\n"
      "[modle]\n"
      "n_layer = 3\n"
      "depth = 3\n"
      "[job.more]\n"
      "description = \"a run\"\n"
      "max_iters = 5\n");
  EXPECT_EQ(found, (List{"r.toml:1: unknown group [optimizr] -> did you mean [optimizer]?",
                         "r.toml:4: unknown setting optimzer.learning_rte -> did you mean optimizer.learning_rate?",
                         "r.toml:6: unknown setting modle.n_layer -> did you mean model.n_layer?",
                         "r.toml:7: unknown setting modle.depth -> lockstep help config lists them",
                         "r.toml:9: unknown setting job.more.description -> lockstep help config lists them",
                         "r.toml:10: unknown setting job.more.max_iters -> did you mean train.max_iters?"}));
}

// Lines of torchtitan's llama3_8b.toml.
TEST(ConfigText, ARecipeOfTorchtitanIsAnsweredKeyByKey) {
  const List found = problems_of(
      "[job]\n"
      "dump_folder = \"./outputs\"\n"
      "[metrics]\n"
      "log_freq = 10\n"
      "[model]\n"
      "name = \"llama3\"\n"
      "flavor = \"8B\"\n"
      "[optimizer]\n"
      "name = \"AdamW\"\n"
      "lr = 3e-4\n"
      "[lr_scheduler]\n"
      "warmup_steps = 200\n"
      "[training]\n"
      "local_batch_size = 1\n"
      "seq_len = 8192\n"
      "steps = 1000\n"
      "[parallelism]\n"
      "data_parallel_shard_degree = -1\n"
      "[activation_checkpoint]\n"
      "mode = \"selective\"\n"
      "[quantize.linear.float8]\n"
      "filter_fqns = [\"output\"]\n"
      "[validation]\n"
      "steps = 1200\n");
  EXPECT_EQ(found, (List{"r.toml:2: unknown setting job.dump_folder -> here it is log.dir",
                         "r.toml:4: unknown setting metrics.log_freq -> here it is train.log_interval",
                         "r.toml:6: unknown setting model.name -> here it is model=NAME, a bundle (lockstep help config model)",
                         "r.toml:7: unknown setting model.flavor -> here it is model=NAME, a bundle (lockstep help config model)",
                         "r.toml:10: unknown setting optimizer.lr -> here it is optimizer.learning_rate",
                         "r.toml:12: unknown setting lr_scheduler.warmup_steps -> here it is train.warmup_iters",
                         "r.toml:14: unknown setting training.local_batch_size -> here it is model.batch_size",
                         "r.toml:15: unknown setting training.seq_len -> here it is model.block_size",
                         "r.toml:16: unknown setting training.steps -> here it is train.max_iters",
                         "r.toml:18: unknown setting parallelism.data_parallel_shard_degree -> here it is parallel.dp=VALUE with "
                         "memory.zero=3",
                         "r.toml:20: unknown setting activation_checkpoint.mode -> here it is memory.recompute",
                         "r.toml:22: unknown setting quantize.linear.float8.filter_fqns -> lockstep help config lists them",
                         "r.toml:24: unknown setting validation.steps -> here it is train.eval_iters"}));
}

// A header of many names is told as one, however long it is.
TEST(ConfigText, ATableOfVeryManyNamesIsOneProblem) {
  std::string header = "a";
  for (int i = 0; i < 300; ++i) header += ".a";
  EXPECT_EQ(problems_of(fmt::format("[{}]\nb = 1\n", header)).size(), 1U);
}

}  // namespace
}  // namespace lockstep::app
