// `lockstep plan read FILE MACHINE`.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/plan_command.h"
#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

constexpr const char* kScript = R"(#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-2}
TP=2
CHECKPOINT=${1:-"checkpoints/a"}
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES   # of them
)
MODEL_ARGS=(
    --use-mcore-models
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope
    --hidden-dropout 0.0
    --attention-dropout 0.0
    --swiglu
    --normalization RMSNorm
    --untie-embeddings-and-output-weights
    --disable-bias-linear
    --vocab-size 128256
)
TRAINING_ARGS=(--micro-batch-size 1 --global-batch-size 64 --lr 1e-4 --bf16 --train-iters 500)
if [[ "$DTYPE" == "fp8" ]]; then
    TRAINING_ARGS+=("--fp8-format hybrid")
fi
MODEL_PARALLEL_ARGS=(--tensor-model-parallel-size $TP --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} ${MODEL_PARALLEL_ARGS[@]} \
    --save "$CHECKPOINT" --tensorboard-dir "$CHECKPOINT/tb" --sequense-parallel
)";

constexpr const char* kDeepSpeed = R"({
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 2,
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
  "fp16": {"enabled": true},
  "zero_optimization": {"stage": 3, "contiguous_gradients": true, "zero_quantized_weights": true}
})";

class PlanRead : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    io::replace_file(path, text);
    return path;
  }
  /// The script with one part in place of another.
  std::string script(const std::string& part, const std::string& other) {
    std::string text = kScript;
    const std::size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    return file("run.sh", text.replace(at, part.size(), other));
  }
  std::string refused(const std::string& path, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"read", path, "h100"};
    words.insert(words.end(), more.begin(), more.end());
    return refusal(words);
  }
  static Json answer(std::vector<std::string> words) {
    words.emplace_back("--json");
    return Json::parse(printed(words));
  }
  TempFolder folder_;
};

TEST_F(PlanRead, AMegatronScriptIsToldWhetherItFitsWhatItCostsAndWhatIsFaster) {
  const std::string path = file("run.sh", kScript);
  const std::string text = told({"read", path, "h100", "--tokens", "1e9", "--price", "2"});
  for (const char* part :
       {", arguments of Megatron-LM (8.03 G parameters) on h100: 2 x 8 devices; 64 samples of 8,192 tokens a step\n",
        "\nbatch_size=1 gas=8 dp=8 zero=1 recompute=none tp=2 sequence=true\n", "\nit fits: ", " a device\n", "\na step takes ",
        " tokens a second, ", " of each device\n", "1.00 G tokens: ", "\nfaster, ", "\nthe file's ",
        "not counted: --fp8-format\n",
        "--sequense-parallel is not known here and was left out; did you mean --sequence-parallel?\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const Json json = answer({"read", path, "h100"});
  EXPECT_EQ(json.at("ranks").integer(), 16);
  EXPECT_TRUE(json.at("fits").boolean());
  EXPECT_NEAR(json.at("tokens_per_second").number() * json.at("step_seconds").number(), 64 * 8192, 1);
  EXPECT_EQ(json.at("notes").array().size(), 2U);
  EXPECT_EQ(json.at("ignored").integer(), 5) << "--use-mcore-models, --lr, --train-iters, --save, --tensorboard-dir";
  EXPECT_GE(json.at("faster_by").number(), 1);
  EXPECT_EQ(json.at("compared").array().size(), 2U);
}

TEST_F(PlanRead, DevicesAreThoseOfTheCommandTheFileOrTheMachine) {
  const std::string path = file("run.sh", kScript);
  const auto ranks = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"read", path, "h100"};
    words.insert(words.end(), more.begin(), more.end());
    return answer(words).at("ranks").integer();
  };
  EXPECT_EQ(ranks({"--gpus", "4"}), 4);
  EXPECT_EQ(ranks({"--nodes", "4"}), 32);
  EXPECT_EQ(answer({"read", script("--nnodes $NUM_NODES", ""), "h100"}).at("ranks").integer(), 8);
  EXPECT_NE(refused(path, {"--gpus", "4", "--nodes", "4"}).find("two numbers of devices"), std::string::npos);
}

TEST_F(PlanRead, AttentionOverlapAndSumsAreAsTheArgumentsSay) {
  const auto seconds = [&](const std::string& path) { return answer({"read", path, "h100"}).at("step_seconds").number(); };
  const auto bytes = [&](const std::string& path) { return answer({"read", path, "h100"}).at("device_bytes").number(); };
  const double usual = seconds(file("run.sh", kScript)), memory = bytes(file("run.sh", kScript));
  EXPECT_GT(bytes(script("--bf16", "--bf16 --attention-backend unfused")), 1.5 * memory) << "scores lie in memory";
  EXPECT_GT(seconds(script("--overlap-grad-reduce", "")), usual);
  EXPECT_LT(seconds(script("--overlap-grad-reduce", "--overlap-grad-reduce --tp-comm-overlap")), usual);
  EXPECT_LT(seconds(script("--overlap-grad-reduce", "--grad-reduce-in-bf16")), seconds(script("--overlap-grad-reduce", "")));
  EXPECT_GT(seconds(script("--bf16", "")), 1.5 * usual) << "fp32";
  EXPECT_LT(bytes(script("--bf16", "--bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1")),
            memory);
  EXPECT_LT(
      bytes(script("--use-distributed-optimizer", "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params")),
      memory);
}

TEST_F(PlanRead, PipelinesAreReadInEveryFormThatMegatronHas) {
  const auto layout = [&](const std::string& arguments) {
    const std::string path =
        script("--tensor-model-parallel-size $TP --sequence-parallel", "--pipeline-model-parallel-size 4 " + arguments);
    return answer({"read", path, "h100"}).at("layout").string();
  };
  EXPECT_NE(layout("").find("pp=4 schedule=1f1b"), std::string::npos) << layout("");
  for (const char* arguments : {"--num-virtual-stages-per-pipeline-rank 4", "--num-layers-per-virtual-pipeline-stage 2",
                                "--pipeline-model-parallel-layout 'Et*2|(tt|)*14,t*2L'"})
    EXPECT_NE(layout(arguments).find("pp=4 schedule=interleaved virtual_stages=4"), std::string::npos) << layout(arguments);
  const std::string uneven = layout("--pipeline-model-parallel-layout \"Et*9|t*8|t*8|t*7L\"");
  EXPECT_NE(uneven.find(" split=9,8,8,7"), std::string::npos) << uneven;
}

TEST_F(PlanRead, WhatMegatronCannotMeanIsRefusedWithAllThatIsWrong) {
  const std::string text = refused(script("--num-layers 32", "--num-layers $LAYERS --num-experts 8"));
  EXPECT_NE(text.find("run.sh: --num-layers $LAYERS, which the file does not set: must be an integer"), std::string::npos)
      << text;
  EXPECT_NE(text.find("--num-experts 8: the planner has no experts"), std::string::npos) << text;
  EXPECT_NE(refused(script("--hidden-size 4096", "")).find("--hidden-size is missing"), std::string::npos);
  EXPECT_NE(
      refused(script("RMSNorm", "BatchNorm")).find("--normalization BatchNorm: not known here\n  -> one of LayerNorm, RMSNorm"),
      std::string::npos);
  EXPECT_NE(refused(script("--bf16", "--recompute-granularity some")).find("--recompute-granularity some: not known here"),
            std::string::npos);
  EXPECT_NE(
      refused(script("--global-batch-size 64", "--global-batch-size x")).find("--global-batch-size x: must be a whole number"),
      std::string::npos);
  EXPECT_NE(refused(script("--bf16", "--use-megatron-fsdp --data-parallel-sharding-strategy all"))
                .find("sharding-strategy all: not known"),
            std::string::npos);
  EXPECT_NE(refused(script("--sequence-parallel", "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*x|L'"))
                .find("--pipeline-model-parallel-layout Et*x|L: no layout of 2 ranks"),
            std::string::npos);
  EXPECT_NE(refused(script("--sequence-parallel", "--pipeline-model-parallel-size 64"))
                .find("--num-layers 32: fewer than the 64 stages"),
            std::string::npos);
  EXPECT_NE(refused(file("notes.txt", "hello world\n")).find("notes.txt: no arguments of Megatron-LM"), std::string::npos);
  EXPECT_NE(refused(file("run.sh", kScript), {"--gpus", "1"}).find("= 2 x 1 x 1 ranks do not divide 1 devices\n  -> --gpus 2"),
            std::string::npos);
  EXPECT_NE(refused(file("run.sh", kScript), {"--global-batch", "12"})
                .find("12 samples of a step are not a multiple of 8 ranks x 1\n  -> --global-batch 16"),
            std::string::npos);
  EXPECT_NE(refused(file("run.sh", kScript), {"--model", "gpt2"}).find("--model gpt2: "), std::string::npos);
  EXPECT_NE(refused((folder_ / "none.sh").string()).find("none.sh"), std::string::npos);
  EXPECT_NE(refused(file("run.sh", kScript), {"--tokens", "-1"}).find("must be 0 or above"), std::string::npos);
}

// Rules of validate_args() (megatron/training/arguments.py) and TransformerConfig.
TEST_F(PlanRead, WhatMegatronRefusesToStartIsRefused) {
  const auto why = [&](const std::string& arguments) {
    return refused(script("--tensor-model-parallel-size $TP --sequence-parallel", arguments));
  };
  const std::string four = "--pipeline-model-parallel-size 4 ", five = "--pipeline-model-parallel-size 5 ";
  EXPECT_NE(
      why(five).find("--num-layers 32: Megatron-LM starts only where --pipeline-model-parallel-size 5 divides the 32 layers"),
      std::string::npos)
      << why(five);
  EXPECT_NE(why(four + "--account-for-loss-in-pipeline-split").find("--pipeline-model-parallel-size 4 divides the 33 layers\n"),
            std::string::npos);
  const std::string starts = script("--sequence-parallel", four + "--account-for-loss-in-pipeline-split --num-layers 31");
  EXPECT_NE(printed({"read", starts, "h100"}).find("it fits"), std::string::npos);
  EXPECT_NE(why(four + "--num-layers-per-virtual-pipeline-stage 3")
                .find("--num-layers-per-virtual-pipeline-stage 3 divides the 8 layers of a rank"),
            std::string::npos);
  EXPECT_NE(why(four + "--num-virtual-stages-per-pipeline-rank 3")
                .find("--num-virtual-stages-per-pipeline-rank 3 divides the 8 layers of a rank"),
            std::string::npos);
  EXPECT_NE(why(four + "--num-virtual-stages-per-pipeline-rank 2 --num-layers-per-virtual-pipeline-stage 2")
                .find("starts with one of them at most"),
            std::string::npos);
  EXPECT_NE(why("--num-virtual-stages-per-pipeline-rank 2")
                .find("--pipeline-model-parallel-size 1: Megatron-LM interleaves stages only on 2 ranks or more"),
            std::string::npos);
  EXPECT_NE(why("--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication")
                .find("only on 3 ranks or more with --no-overlap-p2p-communication"),
            std::string::npos);
  EXPECT_NE(why("--tensor-model-parallel-size 3")
                .find("--num-attention-heads 32: Megatron-LM starts only with a multiple of --tensor-model-parallel-size 3"),
            std::string::npos);
  EXPECT_NE(why("--tensor-model-parallel-size 8 --num-query-groups 6")
                .find("--num-query-groups 6: Megatron-LM starts only with a multiple or a divisor of"),
            std::string::npos);
}

// _vocab_size_with_padding of Megatron-LM's training/tokenizer/tokenizer.py: a multiple of that times the tensor ranks, here 2.
TEST_F(PlanRead, AVocabularyIsCountedAsItIsPadded) {
  const auto read = [&](const std::string& words) { return told({"read", script("--vocab-size 128256", words), "h100"}); };
  std::string text = read("--vocab-size 100000 --make-vocab-size-divisible-by 1500");
  const std::string note = "--make-vocab-size-divisible-by 1500: a vocabulary of 102000 was taken, as Megatron-LM pads it";
  EXPECT_NE(text.find(note), std::string::npos) << text;
  const std::string count = text.substr(text.find('('), text.find(')') - text.find('('));
  EXPECT_NE(read("--vocab-size 102000").find(count), std::string::npos) << count;
  EXPECT_EQ(read("--vocab-size 100000").find(count), std::string::npos) << count;
  text = read("--vocab-size 102000 --make-vocab-size-divisible-by 1500");
  EXPECT_EQ(text.find("pads it"), std::string::npos) << text;
}

TEST_F(PlanRead, AnArgumentThatIsThereTwiceCountsAsItStandsLast) {
  const std::string text = told({"read", script("--vocab-size 128256", "--vocab-size 32000 --vocab-size 128256"), "h100"});
  EXPECT_NE(text.find("--vocab-size is there as 32000 and as 128256: the last one counts\n"), std::string::npos) << text;
  EXPECT_NE(text.find("(8.03 G parameters)"), std::string::npos) << text;
}

TEST_F(PlanRead, ADeepSpeedFileIsToldForTheModelThatIsNamed) {
  const std::string path = file("ds.json", kDeepSpeed);
  const std::string text = told({"read", path, "a100", "--model", "llama3_1B", "--gpus", "16", "--seq", "2048"});
  for (const char* part :
       {", DeepSpeed's configuration (1.24 G parameters) on a100: 2 x 8 devices; 64 samples of 2,048 tokens a step\n",
        "gas=2 dp=16 zero=3", "\nit fits: ", "\nnot counted: ", "zero_quantized_weights",
        "whether blocks are run again is not in the file: --recompute full says so\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("fp16"), std::string::npos) << "as bf16\n" << text;
  const auto bytes = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"read", path, "a100", "--model", "llama3_1B", "--gpus", "16", "--seq", "2048"};
    words.insert(words.end(), more.begin(), more.end());
    return answer(words).at("device_bytes").number();
  };
  EXPECT_LT(bytes({"--recompute", "full"}), bytes({}));
  EXPECT_GT(bytes({"--micro-batch", "4"}), bytes({}));
}

TEST_F(PlanRead, OfDeepSpeedsThreeNumbersOfSamplesTwoAreEnough) {
  const auto layout = [&](const std::string& counts) {
    const std::string path = file("ds.json", "{" + counts + ", \"bf16\": {\"enabled\": true}}");
    return answer({"read", path, "a100", "--model", "gpt2", "--gpus", "4"}).at("layout").string();
  };
  EXPECT_NE(layout(R"("train_batch_size": 64, "train_micro_batch_size_per_gpu": 4)").find("gas=4"), std::string::npos);
  EXPECT_NE(layout(R"("train_batch_size": 64, "gradient_accumulation_steps": 8)").find("gas=8"), std::string::npos);
  EXPECT_NE(layout(R"("train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2)").find("gas=2"), std::string::npos);
  EXPECT_NE(layout(R"("train_batch_size": 64)").find("batch_size=16 gas=1 "), std::string::npos);
  EXPECT_NE(layout(R"("train_micro_batch_size_per_gpu": 64)").find("batch_size=64 gas=1 "), std::string::npos);
}

TEST_F(PlanRead, WhatDeepSpeedCannotMeanIsRefused) {
  const auto why = [&](const std::string& text, std::vector<std::string> more = {"--model", "gpt2"}) {
    return refused(file("ds.json", text), std::move(more));
  };
  EXPECT_NE(why(kDeepSpeed, {}).find("ds.json: DeepSpeed's configuration has no model\n  -> --model NAME"), std::string::npos);
  EXPECT_NE(why("{\"train_batch_size\"").find("ds.json"), std::string::npos);
  EXPECT_NE(why("[1]").find("ds.json: no object of options"), std::string::npos) << why("[1]");
  EXPECT_NE(
      why(R"({"train_batch_size": "auto", "bf16": {"enabled": true}})").find("neither samples of a step nor of a micro-batch"),
      std::string::npos);
  EXPECT_NE(why(R"({"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4})")
                .find("30 samples of a step are not a multiple of 8 ranks x 4"),
            std::string::npos);
  EXPECT_NE(why(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3})")
                .find("64 samples of a step are not 8 ranks x 4 x 3 micro-batches"),
            std::string::npos);
  EXPECT_NE(why(R"({"train_batch_size": 64, "zero_optimization": {"stage": 7}})")
                .find("zero_optimization.stage stands for memory.zero = 7"),
            std::string::npos);
  EXPECT_NE(why(R"({"train_batch_size": 64, "tensor_parallel": {"autotp_size": "two"}})")
                .find("tensor_parallel.autotp_size = \"two\": must be a number of ranks"),
            std::string::npos);
}

// Rules of runtime/pipe/engine.py and runtime/config.py.
TEST_F(PlanRead, WhatDeepSpeedRefusesToStartIsRefused) {
  const auto why = [&](const std::string& options) {
    const std::string path = file("ds.json", R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, )" + options + "}");
    return refused(path, {"--model", "gpt2", "--gpus", "8"});
  };
  for (const char* stage : {"2", "3"}) {
    const std::string text = why(
        fmt::format(R"("bf16": {{"enabled": true}}, "zero_optimization": {{"stage": {}}}, "pipeline": {{"stages": 4}})", stage));
    EXPECT_NE(text.find(fmt::format("ds.json: zero_optimization.stage = {} and pipeline.stages = 4: DeepSpeed's pipelines start "
                                    "with ZeRO 0 or 1 alone",
                                    stage)),
              std::string::npos)
        << text;
  }
  const std::string both = why(R"("bf16": {"enabled": true}, "fp16": {"enabled": true})");
  EXPECT_NE(both.find("ds.json: fp16.enabled and bf16.enabled: DeepSpeed starts with one of them"), std::string::npos) << both;
}

TEST_F(PlanRead, DegreesOfDeepSpeedAreCounted) {
  const std::string path =
      file("ds.json", R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                     "tensor_parallel": {"autotp_size": 2}, "pipeline": {"stages": 2}, "zero_optimization": {"stage": 1}})");
  const Json json = answer({"read", path, "a100", "--model", "llama3_1B", "--gpus", "8", "--seq", "2048"});
  EXPECT_NE(json.at("layout").string().find("gas=32 dp=2 zero=1 recompute=none tp=2"), std::string::npos)
      << json.at("layout").string();
}

TEST_F(PlanRead, WhatDeepSpeedDividesInsideNodesIsCountedSo) {
  const std::string path =
      file("ds.json", R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                          "zero_optimization": {"stage": 3, "mics_shard_size": 8}, "tensor_parallel": 2})");
  const std::string text = told({"read", path, "a100", "--model", "llama3_1B", "--gpus", "16", "--seq", "2048"});
  EXPECT_NE(text.find("zero_optimization.mics_shard_size = 8: counted as the devices of a node\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" zero_group=node"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor_parallel is no group of options"), std::string::npos) << text;
}

TEST_F(PlanRead, TheFastestIsWrittenInTheSameForm) {
  const std::string path = file("run.sh", kScript), out = (folder_ / "faster.txt").string();
  const double faster = answer({"read", path, "h100", "--out", out}).at("faster_by").number();
  EXPECT_TRUE(io::read_file(out).starts_with("--num-layers 32\n")) << io::read_file(out);
  const std::string again = told({"read", out, "h100", "--gpus", "16", "--global-batch", "64"});
  EXPECT_NE(again.find(" tokens a second"), std::string::npos);
  EXPECT_GE(faster, 1);
  const std::string json = file("ds.json", kDeepSpeed), winner = (folder_ / "faster.json").string();
  printed({"read", json, "a100", "--model", "llama3_1B", "--gpus", "16", "--seq", "2048", "--out", winner});
  EXPECT_TRUE(io::read_file(winner).starts_with("{\n \"train_batch_size\": 64"));
}

TEST_F(PlanRead, WhatDoesNotFitSaysSoAndWhatWould) {
  const std::string big = script("--num-layers 32", "--num-layers 96");
  const std::string text = told({"read", big, "h100", "--gpus", "2"});
  EXPECT_NE(text.find("\nit does not fit: "), std::string::npos) << text;
  EXPECT_NE(text.find("\nno layout fits: the nearest needs "), std::string::npos) << text;
  EXPECT_NE(refused(big, {"--gpus", "2", "--out", (folder_ / "w").string()}).find("no layout fits"), std::string::npos);
  const Json json = answer({"read", script("--micro-batch-size 1", "--micro-batch-size 8"), "a100"});
  EXPECT_FALSE(json.at("fits").boolean());
  EXPECT_NE(told({"read", script("--micro-batch-size 1", "--micro-batch-size 8"), "a100"}).find("\nthe fastest that fits, of "),
            std::string::npos);
}

TEST_F(PlanRead, WhatItReachedCalibratesTheMachine) {
  const std::string path = file("run.sh", kScript);
  const double predicted = answer({"read", path, "h100"}).at("tokens_per_second").number();
  const Json json = answer({"read", path, "h100", "--calibrate", std::to_string(0.8 * predicted)});
  EXPECT_NEAR(json.at("tokens_per_second").number() / predicted, 0.8, 1e-4);
  EXPECT_LT(json.at("calibration").at("computing").number(), 0.85);
  EXPECT_EQ(json.at("calibration").at("links").number(), 1);
  EXPECT_NE(told({"read", path, "h100", "--calibrate", std::to_string(0.8 * predicted)}).find("calibrated by "),
            std::string::npos);
  EXPECT_NE(refused(path, {"--calibrate", "1e9"}).find("--calibrate 1e+09 tokens a second: "), std::string::npos);
  EXPECT_NE(refused(path, {"--calibrate", "-3"}).find("must be above 0"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
