// The commands train, generate and eval, as a user types them, on a small text.

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>

#include "app/start/training_data.h"
#include "app/train_command.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/find.h"
#include "device/cuda/cuda_runtime.h"

namespace lockstep::app {
namespace {

TEST_F(TrainCommand, WritesMetricsConfigEnvironmentAndCheckpoints) {
  const Outcome outcome = lockstep(words("a", {"log.style=wordplay"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Training Legend"), std::string::npos);
  EXPECT_NE(outcome.out.find("step=2 loss="), std::string::npos);
  EXPECT_NE(outcome.out.find("Using seed: 1337"), std::string::npos);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(folder_ / "a/environment.json").permissions(), perms::owner_read | perms::owner_write);
  // The start-up lines come in WordPlay's order.
  std::size_t at = 0;
  for (const char* line : {"Setting logging level to 'INFO'",
                           "[device='cpu'][rank=0/0]",
                           "[dist_info]:\n  • DEVICE=cpu\n",
                           "LAUNCH_CMD=None",
                           "Using device='cpu' with backend='DDP'",
                           "Loading val from",
                           "Loading train from",
                           "Tokens per iteration: 48",
                           "Initializing a new model from scratch",
                           "Running on machine=",
                           "{\n    \"train\": {",
                           "Output dir: ",
                           "number of parameters: ",
                           "Model size: num_params=",
                           "num decayed parameter tensors: ",
                           "num non-decayed parameter tensors: ",
                           "devid='cpu:0'",
                           "using fused AdamW: True",
                           "model=GPT(",
                           "Startup time: ",
                           "Training Legend",
                           "step=2 loss="}) {
    const std::size_t found = outcome.out.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << " in:\n" << outcome.out;
    at = found;
  }
  EXPECT_NE(outcome.out.find("['prompt']: 'What is an LLM?'"), std::string::npos);
  std::int64_t step = 0;
  for (const Json& line : lines("a")) {
    EXPECT_EQ(line.at("step").integer(), step += 2);
    EXPECT_GT(line.at("tps").number(), 0);
    for (const char* key : {"train_loss", "val_loss"}) EXPECT_EQ(line.find(key), nullptr) << key;
  }
  EXPECT_EQ(step, 8);
  EXPECT_EQ(checkpoint::list_checkpoints(folder_ / "a").size(), 2U);
  EXPECT_TRUE(Json::parse(file("a/config.json")).is_object());
  EXPECT_TRUE(Json::parse(file("a/environment.json")).is_object());
}

TEST_F(TrainCommand, EvaluationsAreLinesOfTheirOwnTheLastOneToo) {
  const Outcome outcome = lockstep(words("a", {"train.eval_interval=100", "log.tensorboard=true", "checkpoint.interval=2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(evaluated("a"), (std::vector<std::int64_t>{0, 8}));
  const Json last = lines("a", true).back();
  EXPECT_TRUE(last.at("eval").boolean());
  const std::string said =
      fmt::format("step 8: train loss {:.4f}, val loss {:.4f}", last.at("train_loss").number(), last.at("val_loss").number());
  EXPECT_NE(outcome.out.find(said), std::string::npos) << said;
  const auto saved = checkpoint::list_checkpoints(folder_ / "a").back().manifest->validation_loss;
  ASSERT_TRUE(saved);
  EXPECT_EQ(*saved, last.at("val_loss").number());
}

// Stopped by its length at any step, evaluated there or not.
TEST_F(TrainCommand, AResumedRunEvaluatesNothingTwiceAndLeavesNothingOut) {
  ASSERT_EQ(lockstep(words("whole", {"train.eval_interval=2"})).code, 0);
  const std::string dir = "log.dir=" + (folder_ / "parts").string();
  ASSERT_EQ(lockstep(words("parts", {"train.eval_interval=2", "train.max_iters=3"})).code, 0);
  for (const char* steps : {"3", "4", "4", "8", "8"}) {
    const Outcome outcome = lockstep({"train", dir, "train.init_from=resume", std::string("train.max_iters=") + steps});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("Validation:  loss "), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(evaluated("whole"), (std::vector<std::int64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(evaluated("parts"), (std::vector<std::int64_t>{0, 2, 3, 4, 6, 8}));  // 3: the end of the first start
  EXPECT_EQ(lines("parts", true).back().at("val_loss").number(), lines("whole", true).back().at("val_loss").number());
  ASSERT_EQ(lockstep({"train", dir, "train.init_from=resume", "train.eval_only=true", "train.eval_iters=1"}).code, 0);
  EXPECT_EQ(evaluated("parts").size(), 6U);
}

TEST_F(TrainCommand, ARunThatOnlyEvaluatesRecordsIt) {
  ASSERT_EQ(lockstep(words("a", {"train.eval_only=true"})).code, 0);
  EXPECT_EQ(evaluated("a"), (std::vector<std::int64_t>{0}));
}

TEST_F(TrainCommand, ResumeAtAnyStepIsAsIfItHadNeverStopped) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"model.dropout=0.2", "optimizer.gas=2"},
      {"data.order=partition", "data.epoch_end=pad", "model.bias=true", "model.tied=false", "model.init=small"},
      {"model=llama7B", "model.n_layer=2", "model.n_head=4", "model.n_kv_head=2", "model.n_embd=16", "model.head_dim=6",
       "model.ffn_width=24", "model.block_size=12", "model.batch_size=4", "model.rope_scaling=llama3"}};
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const std::string whole = "whole" + std::to_string(v);
    ASSERT_EQ(lockstep(words(whole, variants[v])).code, 0);
    for (const int stop : {2, 4, 7}) {
      const std::string parts = "parts" + std::to_string(v) + std::to_string(stop);
      std::vector<std::string> first = variants[v];
      first.push_back("train.max_iters=" + std::to_string(stop));
      ASSERT_EQ(lockstep(words(parts, first)).code, 0);
      std::vector<std::string> second = variants[v];
      second.emplace_back("train.init_from=resume");
      const Outcome outcome = lockstep(words(parts, second));
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
        const std::string path = std::string("/checkpoints/step_8/") + name;
        EXPECT_TRUE(file(whole + path) == file(parts + path)) << name << " after a stop at " << stop;
      }
    }
  }
}

TEST_F(TrainCommand, ThreadsChangeNoBit) {
  ASSERT_EQ(lockstep(words("two", {"model.dropout=0.1"})).code, 0);
  ASSERT_EQ(lockstep(words("one", {"model.dropout=0.1", "train.threads=1"})).code, 0);
  EXPECT_TRUE(file("one/checkpoints/step_8/model.safetensors") == file("two/checkpoints/step_8/model.safetensors"));
}

TEST_F(TrainCommand, ASignalEndsTheStepSavesAndLeaves) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGUSR1, 0}, {SIGHUP, 0}}) {
    const std::string run = "stopped" + std::to_string(signal);
    // The loop goes on until it is told to stop: the sender waits until it has begun.
    std::optional<Meanwhile> sender(std::in_place, [&] { return has_logged(run); }, [number = signal] { std::raise(number); });
    const Outcome outcome = lockstep(words(run, {"train.max_iters=1000000", "train.eval_interval=1000000"}));
    sender.reset();
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_NE(outcome.out.find("Stopped:"), std::string::npos);
    EXPECT_EQ(checkpoint::list_checkpoints(folder_ / run).size(), 1U);
  }
}

class SwitchFiles : public TrainCommand {
 protected:
  /// An endless run, and what it is told once it has saved something.
  Outcome stopped_by(const std::string& run, const std::function<void()>& event) const {
    const Meanwhile other([&] { return !checkpoint::list_checkpoints(folder_ / run).empty(); }, event);
    return lockstep(words(run, {"train.kill_file=" + (folder_ / "kill").string(), "train.max_iters=1000000",
                                "train.eval_interval=1000000", "checkpoint.interval=10"}));
  }
};

TEST_F(SwitchFiles, StopARunAndMakeItSave) {
  const Outcome killed = stopped_by("killed", [&] { io::replace_file(folder_ / "kill", ""); });
  EXPECT_NE(killed.out.find("the kill file"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "kill"));
  const Outcome again = lockstep(words("killed", {"train.kill_file=" + (folder_ / "kill").string(), "train.init_from=resume"}));
  EXPECT_EQ(again.out.find("Stopped:"), std::string::npos) << again.out << again.err;

  io::replace_file(folder_ / "save", "");
  const Outcome saved = lockstep(words("saved", {"train.save_file=" + (folder_ / "save").string(), "checkpoint.interval=100"}));
  EXPECT_EQ(saved.code, 0) << saved.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "save"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "saved/checkpoints/step_0/manifest.json"));

  const Outcome late = lockstep(words("late", {"train.max_minutes=0.0000001"}));
  EXPECT_NE(late.out.find("train.max_minutes"), std::string::npos) << late.err;
}

TEST_F(TrainCommand, AStopDoesNotWaitForTextAndEvaluation) {
  const std::vector<std::string> long_ones = {"train.max_minutes=0.003", "train.eval_iters=1000000", "sample.tokens=1000000000"};
  const Outcome outcome = lockstep(words("stopped", long_ones));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("The evaluation of step 0 was given up"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("'response'"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("is over, before the first step: there is nothing to save"), std::string::npos) << outcome.out;
  EXPECT_TRUE(checkpoint::list_checkpoints(folder_ / "stopped").empty());
  const Outcome anew = lockstep(words("stopped"));
  EXPECT_EQ(anew.code, 0) << anew.err;
  EXPECT_EQ(anew.out.find("metrics of an earlier run"), std::string::npos) << "there were none";

  std::vector<std::string> only = words("only", long_ones);
  only.emplace_back("train.eval_only=true");
  const Outcome evaluated = lockstep(only);
  EXPECT_NE(evaluated.out.find("train.max_minutes = 0.003 is over; nothing is measured"), std::string::npos) << evaluated.out;
}

TEST_F(SwitchFiles, AFolderIsNone) {
  const Outcome outcome = stopped_by("a", [&] { std::filesystem::create_directory(folder_ / "kill"); });
  EXPECT_NE(outcome.out.find("cannot be deleted (Is a directory)"), std::string::npos) << outcome.out;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "kill"));
}

TEST_F(TrainCommand, TheLossOfTheSummaryIsThatOfItsStep) {
  const Outcome outcome = lockstep(words("a", {"train.eval_interval=100", "log.style=rasbt", "data.order=partition"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(" after 1 steps"), std::string::npos) << outcome.out;
}

TEST_F(TrainCommand, AStepIsDumped) {
  ASSERT_EQ(lockstep(words("dumped", {"train.dump_step=3"})).code, 0);
  const std::string dump = file("dumped/dump_step_3.safetensors");
  for (const char* name :
       {"\"tokens\"", "\"targets\"", "\"loss\"", "\"gradient.transformer.wte.weight\"", "\"weight.transformer.ln_f.weight\""}) {
    EXPECT_NE(dump.find(name), std::string::npos) << name;
  }
}

TEST_F(TrainCommand, EpochsEndTheRun) {
  const Outcome outcome = lockstep(words("epochs", {"train.max_epochs=1", "model.batch_size=64"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<checkpoint::Found> found = checkpoint::list_checkpoints(folder_ / "epochs");
  ASSERT_FALSE(found.empty());
  EXPECT_GT(found.back().step, 8);  // not train.max_iters
}

TEST(Epochs, ThatCannotBeCountedAreRefused) {
  RunConfig config;
  config.train.max_epochs = 1'000'000'000'000'000;
  EXPECT_EQ(steps_of(config, 9000), 9'000'000'000'000'000'000);
  EXPECT_THROW(steps_of(config, 10000), UserError);
}

TEST_F(TrainCommand, OnlyEvaluates) {
  const Outcome outcome = lockstep(words("eval_only", {"train.eval_only=true"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("step 0: train loss"), std::string::npos);
  EXPECT_TRUE(checkpoint::list_checkpoints(folder_ / "eval_only").empty());
}

TEST_F(TrainCommand, EvaluatingARunLeavesItAsItIs) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  const std::string settings = file("a/config.toml"), run = "log.dir=" + (folder_ / "a").string();
  const Outcome evaluated = lockstep({"train", run, "train.init_from=resume", "train.eval_only=true", "train.eval_iters=1"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NE(evaluated.out.find(" after 4 steps"), std::string::npos) << evaluated.out;
  EXPECT_EQ(file("a/config.toml"), settings);
  ASSERT_EQ(lockstep({"train", run, "train.init_from=resume", "train.max_iters=8"}).code, 0);
  EXPECT_EQ(losses("a").size(), 4U);  // of steps 2, 4, 6 and 8
}

TEST_F(TrainCommand, WhatWasAskedOfOneStartIsNotAskedOfTheNext) {
  const std::string run = "log.dir=" + (folder_ / "a").string();
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=1", "train.warmup_iters=0", "train.log_interval=3"})).code, 0);
  const auto resume = [&](const std::string& steps, const std::string& ranks, std::vector<std::string> more) {
    std::vector<std::string> all{"train", "--ranks", ranks, run, "train.init_from=resume", "train.max_iters=" + steps};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  resume("6", "1", {"train.global_batch=new", "model.batch_size=8"});
  EXPECT_EQ(losses("a").size(), 3U);  // of the whole first run, and of steps 3 and 6
  EXPECT_NE(resume("7", "2", {"model.batch_size=2"}).find("keeps the checkpoint's global batch of 8 samples"), std::string::npos);
}

TEST_F(TrainCommand, TheSettingsOfAResumedRunRepeatIt) {
  ASSERT_EQ(lockstep(words("weights")).code, 0);
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4", "train.init_from=" + (folder_ / "weights").string()})).code, 0);
  ASSERT_EQ(lockstep({"train", "log.dir=" + (folder_ / "a").string(), "train.init_from=resume", "train.max_iters=6"}).code, 0);
  const Outcome again = lockstep({"train", "--config", folder_ / "a/config.toml", "log.dir=" + (folder_ / "b").string()});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(losses("b"), losses("a"));
}

TEST_F(TrainCommand, DryRunCountsAndStops) {
  const Outcome outcome =
      lockstep({"train", "--dry-run", "data=shakespeare", "train.dtype=bf16", "model.batch_size=64", "data.root_path=/nowhere"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* text :
       {"num_params=85003776", "50, with 85,771,008", "25, with 19,200", "Tokens per iteration: 65,536", "total"}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
  }
}

TEST_F(TrainCommand, BadInputIsNamed) {
  const auto refused = [&](std::vector<std::string> more, const std::string& said) {
    const Outcome outcome = lockstep(words("refused", std::move(more)));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  };
  refused({"train.dtype=fp16"}, "bf16");
  if (cuda::device_count() == 0) refused({"train.device=cuda"}, "train.device=cuda");
  refused({"model.n_head=3"}, "does not divide");
  refused({"model.n_hed=2"}, "n_head");
  refused({"model.block_size=100000"}, "100000");
  refused({"data.dir=/nowhere"}, "/nowhere");
  refused({"train.init_from=resume"}, "checkpoint");
  ASSERT_EQ(lockstep(words("other")).code, 0);
  refused({"train.init_from=" + (folder_ / "other").string(), "model.n_embd=32"}, "model.n_embd = 32: the model in");
}

// Logits lie apart from what they are computed from.
TEST_F(TrainCommand, ThreadsChangeNoBitOfLogits) {
  ASSERT_EQ(lockstep(words("model")).code, 0);
  std::vector<std::string> logits;
  for (const char* threads : {"1", "2", "3"}) {
    const std::string path = (folder_ / threads).string();
    ASSERT_EQ(lockstep({"eval", "--model", folder_ / "model", "--threads", threads, "--logits", path}).code, 0);
    logits.push_back(io::read_file(path));
  }
  EXPECT_TRUE(logits[0] == logits[1]);
  EXPECT_TRUE(logits[0] == logits[2]);
}

TEST_F(TrainCommand, TrainedModelsWriteAndAreEvaluated) {
  ASSERT_EQ(lockstep(words("model")).code, 0);
  const std::string model = (folder_ / "model").string();
  const Outcome one = lockstep({"generate", "--model", model, "--prompt", "the qux!", "--tokens", "30", "--samples", "2"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out.rfind("the qux", 0), 0U) << one.out;  // '!' is not in the text
  EXPECT_NE(one.err.find("!"), std::string::npos);
  EXPECT_NE(one.out.find("---------------"), std::string::npos);
  const Outcome again = lockstep({"generate", "--model", model, "--prompt", "the qux!", "--tokens", "30", "--samples", "2"});
  EXPECT_EQ(one.out, again.out);
  io::replace_file(folder_ / "prompt.txt", "the lazy");
  EXPECT_EQ(lockstep({"generate", "--model", model, "--prompt", "FILE:" + (folder_ / "prompt.txt").string()}).code, 0);
  EXPECT_EQ(lockstep({"generate", "--model", model, "--prompt", "!!!"}).code, 2);
  EXPECT_EQ(lockstep({"generate", "--model", model, "--top-p", "0"}).code, 2);
  EXPECT_EQ(lockstep({"generate"}).code, 2);

  const Outcome whole = lockstep({"eval", "--model", model});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("bits per byte"), std::string::npos);
  const std::string logits = (folder_ / "logits.safetensors").string();
  const Outcome json =
      lockstep({"eval", "--model", model, "--tokens", folder_ / "data/val.bin", "--length", "5", "--logits", logits, "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const Json numbers = Json::parse(json.out);
  EXPECT_NEAR(std::log(numbers.at("perplexity").number()), numbers.at("loss").number(), 1e-9);
  const auto tokens = static_cast<std::int64_t>(io::read_file(folder_ / "data/val.bin").size() / 2);
  EXPECT_EQ(numbers.at("tokens").integer(), tokens - 1);  // the last window has fewer
  EXPECT_EQ(lockstep({"eval", "--model", model, "--length", "13"}).code, 2);
  EXPECT_EQ(lockstep({"eval", "--model", "/nowhere"}).code, 2);
}

}  // namespace
}  // namespace lockstep::app
