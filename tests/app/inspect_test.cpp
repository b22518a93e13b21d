#include "app/inspect/inspect.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "app/cli/commands.h"
#include "app/inspect/inspect_facts.h"
#include "base/error.h"
#include "checkpoint/sample.h"
#include "data/prepare/prepare.h"
#include "support/megatron.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class Inspect : public testing::Test {
 protected:
  // A checkpoint of a model of two tensors.
  fs::path save(std::int64_t step, std::optional<double> loss, DType type = DType::f32, bool masters = true) {
    checkpoint::Manifest manifest;
    manifest.program = "lockstep test";
    manifest.step = step;
    manifest.updates = step - 1;
    manifest.seed = 0xFFFFFFFFFFFFFFFF;
    manifest.tokens_seen = 768 * step;
    manifest.validation_loss = loss;
    manifest.best_validation_loss = 1.25;
    manifest.dtype = type;
    manifest.master_is_model = masters;
    manifest.model = Json::Object{{"n_layer", 4}, {"note", "two\nlines"}};
    manifest.optimizer = Json::Object{{"betas", Json::Array{0.9, 0.95}}, {"decay", Json::Object{{"rate", 0.10000000149011612}}}};
    manifest.run =
        Json::Object{{"name", "brisk-heron-417"}, {"tokenizer", Json::Object{{"name", "char"}, {"characters", "xyz"}}}};
    const checkpoint::Content content{{checkpoint::hold_whole("wte.weight", view(std::span(weights), Shape{50, 24})),
                                       checkpoint::hold_whole("bias", view(std::span(bias), Shape{5}))},
                                      {checkpoint::hold_whole("bias.exp_avg", view(std::span(bias), Shape{5}))}};
    return checkpoint::save(run.path(), content, manifest, team).folder;
  }
  Json facts(const fs::path& path, bool verify = false) { return inspect_facts(path, verify, team); }
  std::string text(const fs::path& path, bool verify = false) { return inspect_text(facts(path, verify)); }
  void append(const fs::path& path, std::string_view what) { std::ofstream(path, std::ios::app) << what; }
  void damage_last_byte(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x77');
  }
  fs::path prepared(const std::string& name, std::string_view content) {
    const fs::path input = run.path() / name, out = run.path() / "tokens";
    io::replace_file(input, content);
    std::FILE* quiet = std::fopen("/dev/null", "w");
    Log log(quiet);
    data::PrepareOptions options;
    options.input = input.string();
    options.out = out;
    options.facts = options.progress = quiet;
    data::prepare(options, log);
    std::fclose(quiet);
    return out;
  }

  TempFolder run;
  Team team{2};
  std::vector<float> weights = std::vector<float>(1200, 0.5f), bias = {1, 2, 3, 4, 5};
};

#define EXPECT_HOLDS(part, whole) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, whole)

TEST_F(Inspect, ACheckpoint) {
  const fs::path folder = save(1500, 1.5);
  const Json json = facts(folder);
  EXPECT_EQ(json.at("kind").string(), "checkpoint");
  EXPECT_EQ(json.at("step").integer(), 1500);
  EXPECT_EQ(json.at("updates").integer(), 1499);
  EXPECT_EQ(json.at("parameters").integer(), 1205);
  EXPECT_EQ(json.at("tensors").array().size(), 3u);
  EXPECT_EQ(json.at("tensors").array()[0].at("name").string(), "wte.weight");
  EXPECT_EQ(json.at("tensors").array()[0].at("bytes").integer(), 4800);
  EXPECT_EQ(json.at("tensors").array()[0].at("checksum").string().size(), 16u);
  EXPECT_EQ(Json::parse(json.dump()).at("validation_loss").number(), 1.5);
  EXPECT_EQ(json.at("run").at("name").string(), "brisk-heron-417");
  EXPECT_EQ(json.at("run").at("tokenizer").dump(), R"({"name":"char","bytes":34})");
  EXPECT_EQ(json.find("damaged"), nullptr);
  const std::string shown = text(folder);
  for (const char* part : {"1,500", "1,205", "1.5000", "18446744073709551615", "wte.weight", "[50, 24]", "F32", "n_layer",
                           "decay.rate  0.1\n", "[0.9,0.95]", "two\\nlines", "optimizer.safetensors", "3 tensors"}) {
    EXPECT_HOLDS(part, shown);
  }
  EXPECT_EQ(facts(folder / "manifest.json").at("step").integer(), 1500);
}

TEST_F(Inspect, ACheckpointSaysWhatItWasTrainedIn) {
  const auto row = [&](int step, DType type, bool masters) {
    const std::string shown = text(save(step, {}, type, masters));
    return shown.substr(shown.find("trained in"), shown.find("\nmodel") - shown.find("trained in"));
  };
  EXPECT_HOLDS("the fp32 weights themselves", row(1, DType::f32, true));
  EXPECT_HOLDS("bf16", row(2, DType::bf16, true));
  EXPECT_HOLDS("fp32, stored for the weights", row(3, DType::bf16, true));
  EXPECT_HOLDS("none", row(4, DType::bf16, false));
  EXPECT_EQ(facts(run.path() / "checkpoints/step_4").at("dtype").string(), "BF16");
}

TEST_F(Inspect, VerifyNamesWhatIsDamaged) {
  const fs::path folder = save(1, {});
  EXPECT_TRUE(facts(folder, true).at("damaged").array().empty());
  EXPECT_HOLDS("every byte is as it was written", text(folder, true));
  damage_last_byte(folder / "model.safetensors");
  ASSERT_EQ(facts(folder, true).at("damaged").array().size(), 1u);
  EXPECT_HOLDS("DAMAGED OR UNREADABLE:\n  bias", text(folder, true));
  EXPECT_HOLDS("DAMAGED OR UNREADABLE:\n  step_1: bias", text(run.path(), true));
  append(folder / "model.safetensors", "more");
  EXPECT_HOLDS("truncated or replaced", text(run.path(), true));
  fs::create_directories(run.path() / "checkpoints/step_2");
  fs::create_symlink("manifest.json", run.path() / "checkpoints/step_2/manifest.json");
  EXPECT_HOLDS("DAMAGED OR UNREADABLE:\n", text(run.path(), true));
  EXPECT_HOLDS("Too many levels of symbolic links", text(run.path(), true));
}

TEST_F(Inspect, TheLastEvaluationMayStandFarAboveTheEnd) {
  std::string lines = "{\"eval\": true, \"step\": 0, \"val_loss\": 4.5}\n";
  for (int i = 1; i < 9000; ++i) lines += fmt::format("{{\"step\": {}, \"loss\": 2.5, \"tps\": 12345.678}}\n", i);
  save(10, 1.25);
  append(run.path() / "metrics.jsonl", lines);
  EXPECT_EQ(facts(run.path()).at("metrics").at("step").integer(), 8999);
  EXPECT_EQ(facts(run.path()).at("evaluation").at("val_loss").number(), 4.5);
}

TEST_F(Inspect, ARun) {
  save(10, 1.25);
  save(20, 1.75);
  append(run.path() / "metrics.jsonl",
         "{\"step\": 19, \"loss\": 3.5}\n{\"step\": 20, \"loss\": 2.5}\n{\"eval\": true, \"step\": 20, \"val_loss\": "
         "1.75}\n{\"half\": ");
  const Json json = facts(run.path());
  EXPECT_EQ(json.at("kind").string(), "run");
  ASSERT_EQ(json.at("checkpoints").array().size(), 2u);
  EXPECT_TRUE(json.at("checkpoints").array()[0].at("best").boolean());
  EXPECT_FALSE(json.at("checkpoints").array()[0].at("last").boolean());
  EXPECT_TRUE(json.at("checkpoints").array()[1].at("last").boolean());
  EXPECT_EQ(json.at("metrics").at("loss").number(), 2.5);
  EXPECT_EQ(json.at("evaluation").at("val_loss").number(), 1.75);
  append(run.path() / "metrics.jsonl", "{\"step\": 30, \"loss\": 1.5}\n");  // glued to what a kill had cut off
  EXPECT_EQ(facts(run.path()).at("metrics").at("loss").number(), 2.5);
  EXPECT_EQ(json.at("parameters").integer(), 1205);
  for (const char* part : {"best", "last", "1.7500", "15,360", "n_layer", "last metrics", "last evaluation"})
    EXPECT_HOLDS(part, text(run.path()));
  EXPECT_EQ(facts(run.path() / "checkpoints").at("checkpoints").array().size(), 2u);
  append(run.path() / "checkpoints/step_20/manifest.json", " ");
  EXPECT_HOLDS("damaged or unreadable: ", text(run.path()));
  fs::remove_all(run.path() / "checkpoints/step_10");
  fs::remove_all(run.path() / "checkpoints/step_20");
  EXPECT_HOLDS("no checkpoint yet", text(run.path()));
}

// It has written its settings, and nothing else yet.
TEST_F(Inspect, ARunThatHasJustBegun) {
  io::replace_file(run.path() / "config.toml", "");
  EXPECT_NE(text(run.path(), true).find("no checkpoint yet"), std::string::npos);
}

TEST_F(Inspect, ASafetensorsFile) {
  const fs::path path = run.path() / "x.safetensors";
  checkpoint::write_tensors(path, {{"w\x1b[31m", view(std::span(weights), Shape{1200})}, {"b", view(std::span(bias), Shape{5})}},
                            {{"step", "7"}});
  const Json json = facts(path);
  EXPECT_EQ(json.at("kind").string(), "safetensors");
  EXPECT_EQ(json.at("parameters").integer(), 1205);
  EXPECT_EQ(json.at("metadata").at("step").string(), "7");
  EXPECT_EQ(text(path).find('\x1b'), std::string::npos);  // a name cannot steer the terminal
  EXPECT_HOLDS("2 tensors", text(path));
  const Json& mine = json.at("tensors").array()[1];
  const Json saved = facts(save(1, {}));
  EXPECT_EQ(mine.at("checksum").string(), saved.at("tensors").array()[1].at("checksum").string());
}

TEST_F(Inspect, PreparedText) {
  std::string content;
  for (int i = 0; i < 100; ++i) content += "all work and no play\n";
  const fs::path folder = prepared("text.txt", content);
  for (const fs::path& path : {folder, folder / "tokens.json"}) {
    const Json json = facts(path, true);
    EXPECT_EQ(json.at("kind").string(), "tokens");
    EXPECT_EQ(json.at("tokenizer").string(), "char");
    EXPECT_EQ(json.at("files").array().size(), 2u);
    EXPECT_EQ(json.at("files").array()[0].at("tokens").integer(), 1890);
    EXPECT_TRUE(json.at("damaged").array().empty());
  }
  for (const char* part : {"train.bin", "val.bin", "1,890", "all work and no play\\nall work"}) EXPECT_HOLDS(part, text(folder));
  const Json one = facts(folder / "val.bin");
  EXPECT_EQ(one.at("files").array().size(), 1u);
  EXPECT_EQ(one.at("tokenizer").string(), "char");
  {
    std::fstream file(folder / "train.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-2, std::ios::end);  // the last line break becomes another character
    file.put(1);
  }
  EXPECT_EQ(facts(folder, true).at("damaged").array().size(), 1u);
  EXPECT_EQ(facts(folder / "train.bin", true).at("damaged").array().size(), 1u);
  EXPECT_TRUE(facts(folder / "val.bin", true).at("damaged").array().empty());
}

TEST_F(Inspect, PreparedTextWithAMask) {
  const fs::path out = prepared("text.jsonl", "{\"prompt\": \"why\", \"completion\": \"so\"}\n{\"text\": \"abc\"}\n");
  const Json json = facts(out, true);
  EXPECT_EQ(json.at("documents").integer(), 2);
  EXPECT_EQ(json.at("files").array()[0].at("mask").string(), "train.mask.bin");
  EXPECT_EQ(json.at("files").array()[0].at("tokens").integer(), 6);
  EXPECT_EQ(json.at("files").array()[0].at("targets").integer(), 3);
  EXPECT_HOLDS("taught", text(out));
  EXPECT_HOLDS("documents", text(out));
  const Json mask = facts(out / "train.mask.bin", true);
  EXPECT_EQ(mask.at("kind").string(), "loss mask");
  EXPECT_EQ(mask.at("of").string(), "train.bin");
  EXPECT_EQ(mask.at("targets").integer(), 3);
  EXPECT_TRUE(mask.at("damaged").array().empty());
  EXPECT_HOLDS("taught", text(out / "train.mask.bin"));
  damage_last_byte(out / "train.mask.bin");
  EXPECT_EQ(facts(out / "train.mask.bin", true).at("damaged").array()[0].string(), "train.mask.bin");
  EXPECT_EQ(facts(out, true).at("damaged").array()[0].string(), "train.mask.bin");
  EXPECT_EQ(facts(out / "train.bin", true).at("damaged").array()[0].string(), "train.mask.bin");
}

TEST_F(Inspect, ABareTokenFile) {
  const fs::path path = run.path() / "gpt2.bin";
  append(path, std::string_view("\x01\x00\xFF\x01", 4));
  const Json json = facts(path);
  EXPECT_TRUE(json.at("tokenizer").is_null());
  EXPECT_EQ(json.at("start").string(), "1 511");
  EXPECT_HOLDS("read as GPT-2's ids", text(path));
}

TEST_F(Inspect, TokenFilesOfOtherPrograms) {
  const fs::path path = run.path() / "ids.whatever";
  std::vector<std::int32_t> ids(20);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(120000 + i);
  append(path, bytes_of(ids));
  const auto said = [&](const std::string& type) {
    try {
      return inspect_facts(path, false, team, type).dump();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_HOLDS("ids of 4 bytes fit: --ids int32", said("auto"));
  EXPECT_HOLDS("\"start\":\"120000 120001", said("uint32"));
  EXPECT_HOLDS("\"vocabulary\":null", said("uint32"));
  const MegatronData megatron{.documents = {{{1, 2}}, {{70000}}}};
  append(run.path() / "m.bin", megatron.tokens(4));
  append(run.path() / "m.idx", megatron.index(4, 4));
  EXPECT_EQ(facts(run.path() / "m.bin").at("documents").integer(), 2);
  EXPECT_HOLDS("documents  ", text(run.path() / "m.bin"));
}

TEST_F(Inspect, WeightsThatAreNotFiniteAreNamed) {
  bias[3] = std::numeric_limits<float>::infinity();
  const fs::path folder = save(1, {});
  EXPECT_EQ(facts(folder, true).at("not_finite").dump(), "[\"bias\",\"bias.exp_avg\"]");
  EXPECT_HOLDS("NOT FINITE, so that no text can be read with it:\n  bias\n", text(folder, true));
  EXPECT_HOLDS("NOT FINITE, so that no text can be read with it:\n  bias\n", text(folder / "model.safetensors"));
  EXPECT_EQ(text(folder).find("NOT FINITE"), std::string::npos);
}

TEST_F(Inspect, APublishedModel) {
  const fs::path folder = "tests/golden/data/huggingface/llama_tied";
  const Json json = facts(folder);
  EXPECT_EQ(json.at("kind").string(), "published model");
  EXPECT_EQ(json.at("tokenizer").at("fault").string(), folder.string() + " has no tokenizer.json");
  std::int64_t elements = 0;
  std::set<std::string> files;
  for (const Json& tensor : json.at("tensors").array()) {
    elements += tensor.at("elements").integer();
    files.insert(tensor.at("file").string());
    EXPECT_EQ(tensor.at("checksum").string().size(), 16U);
  }
  EXPECT_EQ(files, (std::set<std::string>{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}));
  EXPECT_EQ(json.at("parameters").integer(), elements);
  EXPECT_HOLDS("model-00002-of-00002.safetensors", text(folder));
  EXPECT_HOLDS("rmsnorm", text(folder));
  // A pipe in place of a tensor file does not wait for one who writes.
  const TempFolder copy;
  fs::copy(folder, copy / "model");
  fs::remove(copy / "model/model-00002-of-00002.safetensors");
  ASSERT_EQ(::mkfifo((copy / "model/model-00002-of-00002.safetensors").c_str(), 0600), 0);
  EXPECT_THROW(facts(copy / "model"), UserError);
}

TEST_F(Inspect, WhatIsNothingOfThese) {
  const auto complaint = [&](const fs::path& path) -> std::string {
    try {
      facts(path);
    } catch (const UserError& error) {
      return error.problems().front().remedy.empty() ? "no remedy" : error.what();
    }
    return "no error";
  };
  EXPECT_HOLDS("no checkpoint, no run, no prepared text and no published model", complaint(run.path()));
  fs::create_directories(run.path() / "runs/a b");
  for (const char* name : {"config.toml", "metrics.jsonl"}) io::replace_file(run.path() / "runs/a b" / name, "");
  EXPECT_HOLDS("runs: a folder of 1 run, and inspect shows one thing", complaint(run.path() / "runs"));
  EXPECT_HOLDS("runs/a b', or lockstep report ", complaint(run.path() / "runs"));
  EXPECT_HOLDS("missing", complaint(run.path() / "missing"));
  EXPECT_HOLDS("missing.bin", complaint(run.path() / "missing.bin"));
  append(run.path() / "photo.png", "not a tensor in sight");
  EXPECT_HOLDS("photo.png", complaint(run.path() / "photo.png"));
}

TEST_F(Inspect, TheCommand) {
  const fs::path folder = save(1, {});
  const Command command = inspect_command();
  testing::internal::CaptureStdout();
  EXPECT_EQ(command.run({folder.string(), "--json", "--verify"}), 0);
  EXPECT_EQ(Json::parse(testing::internal::GetCapturedStdout()).at("step").integer(), 1);
  damage_last_byte(folder / "model.safetensors");
  testing::internal::CaptureStdout();
  EXPECT_EQ(command.run({folder.string(), "--verify"}), 1);
  EXPECT_HOLDS("DAMAGED", testing::internal::GetCapturedStdout());
  EXPECT_THROW(command.run({}), UserError);
}

// Two copies of a published file may differ, and neither says which is right.
TEST_F(Inspect, RefusesToVerifyWhatHasNoChecksums) {
  const fs::path model = save(1, 2.0) / "model.safetensors", ids = run.path() / "ids.bin";
  io::replace_file(ids, std::string("\1\0\2\0", 4));
  for (const fs::path& path : {model, ids}) {
    EXPECT_NO_THROW(facts(path));
    try {
      facts(path, true);
      ADD_FAILURE() << path;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(path.string() + ": --verify has nothing to compare with"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace lockstep::app
