// bf16 as a user asks for it: training with and without master weights, going on in another type, reading.

#include <gtest/gtest.h>

#include <cmath>

#include "app/train_command.h"
#include "base/json.h"
#include "checkpoint/find.h"
#include "checkpoint/reader.h"

namespace lockstep::app {
namespace {

class Bf16Command : public TrainCommand {
 protected:
  static inline const std::vector<std::string> masters{"train.dtype=bf16"};
  static inline const std::vector<std::string> alone{"train.dtype=bfloat16", "optimizer.master_weights=false"};

  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome trained(const std::string& run, std::vector<std::string> more) const {
    more.emplace_back("log.style=wordplay");
    Outcome outcome = lockstep(words(run, more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = std::string("/checkpoints/step_8/") + name;
      EXPECT_TRUE(file(a + path) == file(b + path)) << name << " of " << a << " and " << b;
    }
  }
  checkpoint::Reader saved(const std::string& run, int step = 8) const {
    return checkpoint::Reader(folder_ / run / "checkpoints" / checkpoint::folder_name(step));
  }
  double loss_of(const std::string& run, const std::vector<std::string>& more = {}) const {
    const Outcome outcome = lockstep(with({"eval", "--model", folder_ / run, "--json"}, more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out).at("loss").number();
  }
};

TEST_F(Bf16Command, SaysWhatItTrainsIn) {
  const Outcome with_masters = trained("masters", masters);
  EXPECT_NE(with_masters.out.find("Using dtype=bfloat16 on device='cpu', with master weights and moments in float32"),
            std::string::npos);
  EXPECT_NE(with_masters.out.find("weights bf16"), std::string::npos) << with_masters.out;
  EXPECT_NE(with_masters.out.find("master weights, lower halves"), std::string::npos);
  const Outcome without = trained("alone", alone);
  EXPECT_NE(without.out.find("Using dtype=bfloat16 on device='cpu', without master weights"), std::string::npos);
  EXPECT_EQ(without.out.find("master weights, lower halves"), std::string::npos);
}

TEST_F(Bf16Command, CheckpointsHaveWhatIsUpdated) {
  const auto types = [&](const std::string& run, DType expected, bool master) {
    const checkpoint::Reader reader = saved(run);
    EXPECT_EQ(reader.manifest().dtype, DType::bf16);
    EXPECT_EQ(reader.manifest().master_is_model, master);
    for (const checkpoint::StoredTensor& stored : reader.manifest().tensors) {
      EXPECT_EQ(stored.tensor.dtype, expected) << stored.tensor.name;
    }
  };
  trained("masters", masters);
  types("masters", DType::f32, true);
  trained("alone", alone);
  types("alone", DType::bf16, false);
}

TEST_F(Bf16Command, ResumeAtAnyStepIsAsIfItHadNeverStopped) {
  const std::vector<std::vector<std::string>> models = {
      {"model.dropout=0.2", "optimizer.gas=2", "model.bias=true"},
      {"model=llama7B", "model.n_layer=2", "model.n_head=4", "model.n_kv_head=2", "model.n_embd=16", "model.head_dim=6",
       "model.ffn_width=24", "model.block_size=12", "model.batch_size=4"}};
  for (const std::vector<std::string>& type : {masters, alone}) {
    for (std::size_t m = 0; m < models.size(); ++m) {
      const std::string name = type.back().substr(6) + std::to_string(m), whole = "whole" + name;
      trained(whole, with(models[m], type));
      for (const int stop : {3, 4}) {
        const std::string parts = "parts" + std::to_string(stop) + name;
        trained(parts, with(with(models[m], type), {"train.max_iters=" + std::to_string(stop)}));
        // A resume takes the type from the run's own settings.
        trained(parts,
                with(models[m], {"--config", folder_ / parts / "config.toml", "train.init_from=resume", "train.max_iters=8"}));
        expect_same(whole, parts);
      }
    }
  }
}

TEST_F(Bf16Command, ThreadsChangeNoBit) {
  for (const std::vector<std::string>& type : {masters, alone}) {
    const std::string name = type.back();
    trained("two" + name, with(type, {"model.dropout=0.1"}));
    trained("one" + name, with(type, {"model.dropout=0.1", "train.threads=1"}));
    expect_same("one" + name, "two" + name);
  }
}

TEST_F(Bf16Command, RanksOverlapAndBucketsChangeNoBit) {
  const std::vector<std::string> ranks{"--ranks", "2", "train.threads=1", "optimizer.gas=2"};
  for (const std::vector<std::string>& type : {masters, alone}) {
    const std::string name = type.back();
    trained("plain" + name, with(type, ranks));
    trained("waiting" + name, with(with(type, ranks), {"parallel.overlap=false", "parallel.bucket_bytes=1"}));
    expect_same("plain" + name, "waiting" + name);
    trained("single" + name, with(type, {"optimizer.gas=4"}));
    const std::vector<double> one = losses("single" + name), two = losses("plain" + name);
    ASSERT_EQ(one.size(), two.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-2 * one[i]);
  }
}

TEST_F(Bf16Command, ServersDoWhatRanksDo) {
  const std::vector<std::string> threads{"train.threads=1"};
  for (const std::vector<std::string>& type : {masters, alone}) {
    const std::string name = type.back();
    trained("ranks" + name, with(with(type, threads), {"--ranks", "2"}));
    trained("served" + name, with(with(type, threads), {"--ranks", "3", "train.backend=ps"}));
    expect_same("ranks" + name, "served" + name);
  }
}

// Whatever loses nothing goes on in the type that is asked for.
TEST_F(Bf16Command, GoesOnInAnotherType) {
  const std::vector<std::string> resume{"train.init_from=resume", "train.max_iters=8"}, half{"train.max_iters=4"};
  trained("wide", half);
  const Outcome narrowed = trained("wide", with(resume, masters));
  EXPECT_NE(narrowed.out.find("trained in float32; this run computes in bfloat16"), std::string::npos) << narrowed.out;
  EXPECT_EQ(saved("wide").manifest().dtype, DType::bf16);

  trained("narrow", with(half, masters));
  const Outcome widened = trained("narrow", with(resume, {"train.dtype=fp32"}));
  EXPECT_NE(widened.out.find("trained in bfloat16; this run computes in float32"), std::string::npos);
  EXPECT_EQ(saved("narrow").manifest().dtype, DType::f32);

  trained("alone", with(half, alone));
  trained("alone", with(resume, {"optimizer.master_weights=true"}));
  EXPECT_TRUE(saved("alone").manifest().master_is_model);
  EXPECT_EQ(saved("alone").find("transformer.wte.weight.exp_avg")->tensor.dtype, DType::f32);
}

TEST_F(Bf16Command, AResumeThatWouldRoundIsRefused) {
  for (const std::vector<std::string>& type : {std::vector<std::string>{}, masters}) {
    const std::string run = "from" + std::to_string(type.size());
    trained(run, with(type, {"train.max_iters=4"}));
    const Outcome refused = lockstep(words(run, with(alone, {"train.init_from=resume"})));
    EXPECT_EQ(refused.code, 2);
    for (const char* part :
         {"step_4 has weights and moments in fp32", "rounded to bf16", "optimizer.master_weights=true", "train.init_from="}) {
      EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
    }
    trained("new" + run, with(alone, {"train.init_from=" + (folder_ / run).string()}));  // a new run may
  }
}

TEST_F(Bf16Command, MasterWeightsOfFp32AreRefused) {
  const Outcome refused = lockstep(words("refused", {"optimizer.master_weights=false"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("weights in fp32 are their own master copy"), std::string::npos) << refused.err;
}

TEST_F(Bf16Command, TrainedModelsAreReadInEitherType) {
  trained("masters", masters);
  trained("wide", {});
  for (const std::string run : {"masters", "wide"}) {
    const double narrow = loss_of(run, {"--dtype", "bf16"}), wide = loss_of(run, {"--dtype", "float32"});
    EXPECT_NE(narrow, wide);
    EXPECT_NEAR(narrow, wide, 1e-2 * wide);
    EXPECT_EQ(loss_of(run), run == "wide" ? wide : narrow);
    EXPECT_EQ(loss_of(run, {"--dtype", "stored"}), loss_of(run));
    EXPECT_EQ(loss_of(run, {"--dtype", "bf16", "--ranks", "2"}), narrow);
  }
  const auto text = [&](const std::string& dtype) {
    const Outcome outcome =
        lockstep({"generate", "--model", folder_ / "masters", "--prompt", "the", "--tokens", "40", "--dtype", dtype});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(text("stored"), text("bfloat16"));
  EXPECT_EQ(text("fp32").rfind("the", 0), 0U);
  for (const char* command : {"generate", "eval"}) {
    const Outcome refused = lockstep({command, "--model", folder_ / "masters", "--dtype", "fp16"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("stored|fp32|float32|bf16|bfloat16"), std::string::npos) << refused.err;
  }
}

TEST_F(Bf16Command, DryRunShowsItsMemory) {
  const auto bytes = [&](const std::vector<std::string>& more) {
    const Outcome outcome =
        lockstep(with({"train", "--dry-run", "data=shakespeare", "model=shakespeare", "data.root_path=/nowhere"}, more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_NE(bytes(masters).find("master weights, lower halves"), std::string::npos);
  EXPECT_EQ(bytes(alone).find("master weights, lower halves"), std::string::npos);
  EXPECT_EQ(bytes({}).find("weights bf16"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
