// memory.limit: what does not fit is refused before it starts, and told what would fit.

#include <gtest/gtest.h>

#include "app/train_command.h"
#include "arch/config_json.h"
#include "checkpoint/manifest.h"

namespace lockstep::app {
namespace {

class MemoryLimit : public TrainCommand {
 protected:
  /// GPT-2's shape on one rank, which takes 2.5 GiB.
  static Outcome dry(std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--dry-run", "model=gpt2", "data.root_path=/nowhere", "model.batch_size=4",
                               "model.block_size=256", "model.vocab_size=50257", "train.threads=1"});
    return lockstep(std::move(more));
  }
  static void expect_said(const std::string& where, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) EXPECT_NE(where.find(text), std::string::npos) << text << "\n" << where;
  }
  /// The number behind `text`, in bytes as format_bytes writes them: MiB.
  static double mib(const std::string& where, const std::string& text) {
    const std::size_t at = where.find(text);
    EXPECT_NE(at, std::string::npos) << text << "\n" << where;
    return at == std::string::npos ? 0 : std::stod(where.substr(at + text.size()));
  }
};

TEST_F(MemoryLimit, ARunThatNeedsMoreIsRefusedWithItsLargestOwners) {
  const Outcome refused = lockstep(words("refused", {"memory.limit=1MiB"}));
  EXPECT_EQ(refused.code, 2);
  expect_said(refused.err, {"memory.limit = 1MiB: the run needs ", " more; the most of rank 0: ", "lets it run"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "checkpoints"));
  EXPECT_EQ(lockstep(words("runs", {"memory.limit=1GiB"})).code, 0);
}

TEST_F(MemoryLimit, ADryRunPrintsOwnersAndRefusesToo) {
  const Outcome refused = dry({"memory.limit=512MiB"});
  EXPECT_EQ(refused.code, 2);
  expect_said(refused.out, {"Memory of one rank", "layer            parameters", "\nh.0 to h.11 ", "exp_avg of 15 layers"});
  expect_said(refused.err, {"memory.limit = 512MiB: the run needs 2.", "gradients of 15 layers 472.06 MiB",
                            "parameters: weights of 15 layers 472.06 MiB", "memory.recompute=full saves ",
                            "model.batch_size=2 with optimizer.gas=2 saves ", "none of them alone is enough"});
  EXPECT_EQ(refused.err.find("memory.zero="), std::string::npos) << refused.err;
  const std::size_t at = refused.err.find("memory.limit=");
  ASSERT_NE(at, std::string::npos) << refused.err;
  EXPECT_EQ(dry({refused.err.substr(at, refused.err.find(' ', at) - at)}).code, 0);
}

TEST_F(MemoryLimit, WhatIsLeftKeepsWeightsGathered) {
  const std::vector<std::string> cut{"--ranks", "2", "memory.zero=3"};
  const auto with = [&](const std::string& limit) {
    std::vector<std::string> all = cut;
    all.push_back(limit);
    return dry(all);
  };
  const Outcome least = dry(cut), all = with("memory.limit=64GiB");
  const double needed = 1024 * mib(least.out, "\ntotal ");  // it is written in GiB
  expect_said(all.out, {"memory.limit leaves room for the weights of 10 more blocks, which stay gathered"});
  // Two ranks, for each a block of 27 MiB more.
  const Outcome one = with("memory.limit=" + std::to_string(static_cast<int>(2 * (needed + 40))) + "MiB");
  expect_said(one.out, {"the weights of 1 more block, which"});
  EXPECT_NEAR(1024 * mib(one.out, "\ntotal ") - needed, 27, 11);
  EXPECT_EQ(least.out.find("more block"), std::string::npos) << least.out;
  EXPECT_EQ(one.code, 0);
}

TEST_F(MemoryLimit, AGenerousLimitChangesNoLoss) {
  const std::vector<std::string> cut{"--ranks", "2", "memory.zero=3", "model.n_layer=4"};
  std::vector<std::string> generous = cut;
  generous.emplace_back("memory.limit=1GiB");
  ASSERT_EQ(lockstep(words("bare", cut)).code, 0);
  expect_said(lockstep(words("roomy", generous)).out, {"the weights of 2 more blocks, which stay gathered"});
  EXPECT_EQ(losses("bare"), losses("roomy"));
}

TEST_F(MemoryLimit, WhatIsSaidToFitFits) {
  const Outcome whole = dry({});
  ASSERT_EQ(whole.code, 0);
  const std::string limit = "memory.limit=" + std::to_string(static_cast<int>(mib(whole.out, "\ntotal ") * 1024) - 100) + "MiB";
  const Outcome refused = dry({limit});
  EXPECT_EQ(refused.code, 2);
  expect_said(refused.err, {"memory.recompute=full saves", "and fits"});
  EXPECT_EQ(dry({limit, "memory.recompute=full"}).code, 0);
  EXPECT_EQ(dry({limit, "memory.recompute=every:2"}).code, 0);
}

// Every rank has the limit's host in common with the others.
TEST_F(MemoryLimit, RanksOfAHostAreCountedTogether) {
  const std::vector<std::string> two{"--ranks", "2", "model.batch_size=1", "memory.limit=4GiB"};
  EXPECT_EQ(dry({"model.batch_size=1", "memory.limit=4GiB"}).code, 0);
  const Outcome refused = dry(two);
  EXPECT_EQ(refused.code, 2);
  expect_said(refused.err, {"the 2 ranks of host ", " need 4.", "memory.zero=1 saves ", "memory.zero=3 saves "});
  const double first = mib(refused.err, "memory.zero=1 saves ");
  EXPECT_NEAR(first, 944.12, 0.01);  // one of two copies of the moments
  std::vector<std::string> cut = two;
  cut.push_back("memory.zero=1");
  EXPECT_EQ(dry(cut).code, 0);
}

TEST_F(MemoryLimit, ServersAreCounted) {
  const std::vector<std::string> served{"--ranks", "2", "train.backend=ps", "model.batch_size=1"};
  std::vector<std::string> limited = served;
  limited.push_back("memory.limit=2GiB");
  EXPECT_EQ(dry(served).code, 0);
  const Outcome refused = dry(limited);
  EXPECT_EQ(refused.code, 2);
  expect_said(refused.err, {"the 2 ranks of host ", "memory.recompute=full saves "});
  EXPECT_EQ(refused.err.find("memory.zero="), std::string::npos) << refused.err;
  const Outcome run = lockstep(words("served", {"--ranks", "2", "train.backend=ps", "memory.limit=1MiB"}));
  EXPECT_EQ(run.code, 2);
  expect_said(run.err, {"memory.limit = 1MiB: the 2 ranks of host "});
}

// No machine has so much. Nothing but the refusal is said, and nothing is left.
TEST_F(MemoryLimit, WhatIsNotFreeIsRefusedBeforeItIsTaken) {
  const std::vector<std::string> huge{"model.n_embd=65536", "model.n_head=256", "model.n_layer=500", "train.threads=1",
                                      "optimizer.gas=2"};
  const Outcome refused = lockstep(words("huge", huge));
  EXPECT_EQ(refused.code, 2);
  expect_said(refused.err, {"not enough memory: host ", ": it needs ", " of its memory are free (", "; the most of rank 0: ",
                            "memory.offload_optimizer=nvme with memory.offload_params=nvme", "none of them alone is enough"});
  EXPECT_EQ(refused.out.find("memory by layer"), std::string::npos) << refused.out;
  EXPECT_EQ(refused.out.find("Number of parameters"), std::string::npos) << refused.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "huge"));
  std::vector<std::string> dry_words = huge;
  dry_words.insert(dry_words.end(), {"--dry-run", "--ranks", "2"});
  const Outcome told = lockstep(words("huge", dry_words));
  EXPECT_EQ(told.code, 0) << told.err;
  expect_said(told.out, {"This run would be refused here: not enough memory: the 2 ranks of host ", "memory.zero=3 saves "});
  std::vector<std::string> served = huge;
  served.insert(served.end(), {"--ranks", "2", "train.backend=ps"});
  const Outcome servers = lockstep(words("huge", served));
  EXPECT_EQ(servers.code, 2);
  expect_said(servers.err, {"not enough memory: the 2 ranks of host "});
}

// Before a byte of it is read.
TEST_F(MemoryLimit, AModelThatDoesNotFitIsNotLoaded) {
  ASSERT_EQ(lockstep(words("run", {"train.max_iters=1", "train.warmup_iters=1"})).code, 0);
  const io::Path path = folder_ / "run/checkpoints/step_1/manifest.json";
  checkpoint::Manifest manifest = checkpoint::parse_manifest(io::read_file(path), "m");
  arch::ModelConfig model = arch::model_from_json(manifest.model, "m");
  model.layers = 500;
  model.width = 65536;
  model.head_size = 256;
  model.heads = model.kv_heads = 256;
  model.ffn_width = 262144;
  manifest.model = arch::to_json(model);
  io::replace_file(path, checkpoint::manifest_text(manifest));
  for (std::vector<std::string> command : {std::vector<std::string>{"generate", "--prompt", "the"}, {"eval"}}) {
    command.insert(command.end(), {"--model", folder_ / "run"});
    const Outcome refused = lockstep(command);
    EXPECT_EQ(refused.code, 2);
    expect_said(refused.err, {"step_1: not enough memory for its weights: host ", " of its memory are free (",
                              "--dtype bf16 takes half as much; "});
  }
}

TEST_F(MemoryLimit, NonsenseIsNamed) {
  for (const std::string value : {"0", "much", "-4GiB"}) {
    const Outcome refused = lockstep(words("bad", {"memory.limit=" + value}));
    EXPECT_EQ(refused.code, 2);
    expect_said(refused.err, {"memory.limit = " + value + ": must be a number of bytes, such as 4GiB"});
  }
}

/// The table that follows `title`.
std::string table_after(const std::string& text, const std::string& title) {
  const std::size_t at = text.find(title);
  if (at == std::string::npos) return "";
  const std::size_t start = text.find('\n', at) + 1, end = text.find("\ntotal", start);
  return text.substr(start, text.find('\n', end + 1) - start);
}

TEST_F(MemoryLimit, ADryRunForetellsWhatARunTakes) {
  const std::vector<std::vector<std::string>> runs{{"optimizer.gas=2"},
                                                   {"train.dtype=bf16", "memory.recompute=full"},
                                                   {"--ranks", "2", "train.threads=1", "memory.zero=3"},
                                                   {"--ranks", "2", "train.threads=1", "data.io=readers", "optimizer.gas=3"}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::string> more = runs[i];
    more.emplace_back("log.style=wordplay");
    const Outcome run = lockstep(words("run" + std::to_string(i), more));
    more.push_back("--dry-run");
    const Outcome foretold = lockstep(words("run" + std::to_string(i), more));
    ASSERT_EQ(run.code + foretold.code, 0) << run.err << foretold.err;
    const std::string taken = table_after(run.out, "] - memory");
    EXPECT_NE(taken, "");
    EXPECT_EQ(table_after(foretold.out, "Memory of one rank"), taken);
  }
}

}  // namespace
}  // namespace lockstep::app
