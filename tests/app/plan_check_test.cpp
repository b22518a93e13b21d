// `lockstep plan check RUN...`.

#include <algorithm>

#include "app/plan/machine_file.h"
#include "app/plan/predicted_run.h"
#include "app/train_command.h"
#include "base/error.h"

namespace lockstep::app {
namespace {

class PlanCheck : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    io::replace_file(machine_,
                     "name = \"ours\"\ndevices = 2\nmemory = \"8GB\"\npeak_tflops = 0.1\nproduct_share = 0.5\n"
                     "f32_share = 0.25\nmemory_gbps = 10\ninside_gbps = 5\n");
  }
  void train(const std::string& run, std::vector<std::string> more = {}) const {
    const Outcome outcome = lockstep(words(run, std::move(more)));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  std::string checked(const std::string& run, bool named = true) const {
    Arguments arguments{"check", (folder_ / run).string()};
    if (named) arguments.insert(arguments.end(), {"--machine", machine_});
    testing::internal::CaptureStdout();
    try {
      EXPECT_EQ(plan_command().run(arguments), 0);
    } catch (const UserError& error) {
      return testing::internal::GetCapturedStdout() + error.what();
    }
    return testing::internal::GetCapturedStdout();
  }
  /// Each wait of the run's steps becomes 0.25 s. How long it was, the machine's load decided.
  void put_waits(const std::string& run) const {
    std::string text;
    for (Json line : lines(run)) {
      Json waited;
      for (const char* kind : {"all_reduce", "reduce_scatter", "all_gather", "receive"}) waited.set(kind, 0.25);
      line.set("waited", waited);
      Json ranks = line.at("ranks");
      if (ranks.find("waiting") != nullptr) ranks.set("waiting", Json::Object{{"mean", 0.25}});
      line.set("ranks", ranks);
      text += line.dump() + "\n";
    }
    io::replace_file(folder_ / run / "metrics.jsonl", text);
  }
  std::string machine_ = (folder_ / "m.toml").string();
};

TEST_F(PlanCheck, SetsWhatIsPredictedBesideWhatWasMeasured) {
  train("one");
  const std::string text = checked("one");
  for (const char* part :
       {"/one on ours: ", ", 3 lines of metrics\n", " measured     error\n", "\nparameters ", "\noptimizer ",
        "\nmemory of training ", "\nforward ", "\nbackward ", "\nwaiting for gradients ", "\nupdate ", "\nstep ",
        "\nbatches and text samples took ", "predictions.jsonl: steps of 1 run on ours are off by "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST_F(PlanCheck, MemoryIsWhatTheRunTookToTheByte) {
  train("one", {"optimizer.gas=2"});
  train("bf16", {"train.dtype=bf16", "memory.recompute=full"});
  train("zero", {"--ranks", "2", "train.threads=1", "memory.zero=2"});
  train("stages", {"--ranks", "2", "train.threads=1", "parallel.pp=2", "optimizer.gas=2"});
  train("parts", {"--ranks", "2", "train.threads=1", "parallel.tp=2", "parallel.sequence=true"});
  train("canonical", {"numerics.canonical=true", "optimizer.gas=2"});
  train("canonical_ranks", {"--ranks", "2", "train.threads=1", "parallel.tp=2", "numerics.canonical=true"});
  train("disk",
        {"memory.offload_optimizer=nvme", "memory.offload_activations=nvme", "memory.nvme_path=" + folder_.path().string()});
  train("beside", {"checkpoint.async=true", "log.trace=true", "train.dtype=bf16", "optimizer.moments=bf16"});
  train("kept", {"--ranks", "2", "train.threads=1", "memory.zero=3", "memory.limit=1GiB"});
  for (const char* name : {"one", "bf16", "zero", "stages", "parts", "canonical", "canonical_ranks", "disk", "beside", "kept"}) {
    const MeasuredRun run = read_run(folder_ / name);
    const RunComparison comparison = compare(run, planner::divided(named_machine(machine_, 0), run.resources.ranks));
    for (const ComparedFigure& figure : comparison.memory) EXPECT_EQ(figure.predicted, figure.measured) << name << figure.name;
    EXPECT_GT(comparison.memory.back().measured, 0);
    for (const ComparedFigure& figure : comparison.seconds) EXPECT_GE(figure.predicted, 0) << name << figure.name;
    EXPECT_GT(comparison.seconds.back().predicted, 0);
    EXPECT_GT(comparison.seconds.back().measured, 0);
  }
}

TEST_F(PlanCheck, ExchangesAndTheBubbleHaveRowsOfTheirOwn) {
  train("stages", {"--ranks", "2", "train.threads=1", "parallel.pp=2", "optimizer.gas=2"});
  train("parts", {"--ranks", "2", "train.threads=1", "parallel.tp=2"});
  train("zero", {"--ranks", "2", "train.threads=1", "memory.zero=2"});
  for (const char* name : {"stages", "parts", "zero"}) put_waits(name);
  const auto figure = [&](const std::string& name, const std::string& row) {
    const MeasuredRun run = read_run(folder_ / name);
    const RunComparison comparison = compare(run, planner::divided(named_machine(machine_, 0), run.resources.ranks));
    const auto found = std::ranges::find(comparison.seconds, row, &ComparedFigure::name);
    return found == comparison.seconds.end() ? ComparedFigure{row, -1, -1} : *found;
  };
  for (const auto& [run, row] :
       {std::pair("stages", "bubble"), std::pair("stages", "in messages"), std::pair("parts", "in all_reduce"),
        std::pair("zero", "in reduce_scatter"), std::pair("zero", "in all_gather")}) {
    EXPECT_GT(figure(run, row).predicted, 0) << run << " " << row;
    EXPECT_EQ(figure(run, row).measured, 0.25) << run << " " << row;
  }
  EXPECT_EQ(figure("parts", "bubble").predicted, -1);
  EXPECT_EQ(figure("stages", "in all_to_all").predicted, -1);
}

TEST_F(PlanCheck, ARunsFolderStandsForItsRecipe) {
  train("one");
  const std::string run = (folder_ / "one").string();
  ASSERT_TRUE(io::exists(folder_ / "one/config.json"));
  const auto told = [](const Arguments& arguments) {
    testing::internal::CaptureStdout();
    const int code = plan_command().run(arguments);
    EXPECT_EQ(code, 0);
    const std::string text = testing::internal::GetCapturedStdout();
    return text.substr(text.find("\"vocabulary\""));  // behind the model's name
  };
  for (const char* end : {"", "/"})
    EXPECT_EQ(told({"memory", run + end, "--json"}), told({"memory", run + "/config.toml", "--json"}));
}

TEST_F(PlanCheck, KeepsItsErrorsBesideTheRuns) {
  train("one");
  train("two");
  checked("one");
  checked("one");
  EXPECT_NE(checked("two").find("predictions.jsonl: steps of 2 runs on ours are off by "), std::string::npos);
  const std::string history = file("predictions.jsonl");
  EXPECT_EQ(std::ranges::count(history, '\n'), 3);
  const Json first = Json::parse(history.substr(0, history.find('\n')));
  EXPECT_EQ(first.at("run").string(), "one");
  EXPECT_EQ(first.at("machine").string(), "ours");
  EXPECT_GT(first.at("run_peak_flops").number(), 0);
  EXPECT_GT(first.at("bytes").at("memory of training").at("measured").number(), 0);
  EXPECT_GT(first.at("seconds").at("step").at("predicted").number(), 0);
  io::replace_file(machine_, "name = \"theirs\"\n" + io::read_file(machine_).substr(io::read_file(machine_).find("devices")));
  EXPECT_NE(checked("one").find("predictions.jsonl: steps of 1 run on theirs are off by "), std::string::npos);
}

TEST_F(PlanCheck, TellsWhatItFoundWhereItsErrorsCannotBeKept) {
  train("one");
  std::filesystem::create_directory(folder_ / "predictions.jsonl");
  const std::string text = checked("one");
  EXPECT_NE(text.find("/one on ours: "), std::string::npos) << text;
  EXPECT_NE(text.find("not kept in " + (folder_ / "predictions.jsonl").string() + ": "), std::string::npos) << text;
}

TEST_F(PlanCheck, AFolderOfRunsStandsForAllRunsInIt) {
  train("all/one");
  train("all/two");
  const std::string text = checked("all");
  for (const char* part : {"/all/one on ours: ", "/all/two on ours: ", "steps of 2 runs on ours are off by "})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  testing::internal::CaptureStdout();
  EXPECT_EQ(plan_command().run({"check", (folder_ / "all").string(), "--machine", machine_, "--json"}), 0);
  const Json answer = Json::parse(testing::internal::GetCapturedStdout());
  ASSERT_EQ(answer.at("runs").array().size(), 2U);
  EXPECT_EQ(answer.at("runs").array()[1].at("run").string(), (folder_ / "all/two").string());
  EXPECT_EQ(answer.at("figures").array()[0].at("run").string(), (folder_ / "all/one").string());
  io::replace_file(folder_ / "all/one/metrics.jsonl", "");
  std::filesystem::remove(folder_ / "all/two/resources.json");
  const std::string refused = checked("all");
  EXPECT_NE(refused.find("/all/one: the run has no metrics"), std::string::npos) << refused;
  EXPECT_NE(refused.find("resources.json: there is none"), std::string::npos) << refused;
}

TEST_F(PlanCheck, ARunSaysAtItsEndWhatWasPredicted) {
  const Outcome said = lockstep(words("one", {"log.machine=" + machine_}));
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("\nPrediction:  step "), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("; memory of training "), std::string::npos) << said.out;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "predictions.jsonl"));
  const Outcome silent = lockstep(words("two"));
  EXPECT_EQ(silent.out.find("Prediction:"), std::string::npos) << silent.out;
}

TEST_F(PlanCheck, ARunWithoutMetricsSaysWhyNothingIsPredicted) {
  const Outcome said = lockstep(words("one", {"log.machine=" + machine_, "train.eval_only=true"}));
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("\nPrediction:  none: "), std::string::npos) << said.out;
}

TEST_F(PlanCheck, ARunOnAMachineThatCannotBeIsRefusedBeforeItStarts) {
  const Outcome missing = lockstep(words("one", {"log.machine=" + (folder_ / "missing.toml").string()}));
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("missing.toml"), std::string::npos) << missing.err;
  io::replace_file(folder_ / "none.toml", "devices = 2\nmemory = 0\n");
  const Outcome none =
      lockstep(words("one", {"log.machine=" + (folder_ / "none.toml").string(), "--ranks", "2", "train.threads=1"}));
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("memory = 0"), std::string::npos) << none.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "one" / "metrics.jsonl"));
}

TEST_F(PlanCheck, WithoutAMachineThisOneIsMeasured) {
  train("one");
  EXPECT_NE(checked("one", false).find("/one on this machine ("), std::string::npos);
}

TEST_F(PlanCheck, WhatMeasuredNothingIsRefused) {
  EXPECT_NE(checked("data").find("no run's folder, for it has no config.toml\n  -> a folder that lockstep train wrote"),
            std::string::npos);
  train("one");
  std::filesystem::remove(folder_ / "one/resources.json");
  EXPECT_NE(checked("one").find("resources.json: there is none"), std::string::npos);
  io::replace_file(folder_ / "one/metrics.jsonl", "");
  EXPECT_NE(checked("one").find("the run has no metrics, so nothing was measured"), std::string::npos);
  std::filesystem::remove(folder_ / "one/metrics.jsonl");
  EXPECT_NE(checked("one").find("the run has no metrics, so nothing was measured"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "predictions.jsonl"));
}

TEST_F(PlanCheck, RunsThatHaveNoModelOrAnotherMachineAreRefused) {
  train("one");
  Resources had = read_resources(folder_ / "one");
  had.servers = 1;
  write_resources(folder_ / "one", had);
  EXPECT_NE(checked("one").find("parameter servers have no time model"), std::string::npos);
  had.servers = 0;
  had.ranks_per_host = 0;
  write_resources(folder_ / "one", had);
  EXPECT_NE(checked("one").find("hosts had different numbers of ranks"), std::string::npos);
  had.ranks_per_host = 1;
  had.ranks = 2;
  write_resources(folder_ / "one", had);
  EXPECT_NE(checked("one", false).find("the run had more than this host's processor"), std::string::npos);
  had.threads = 0;
  write_resources(folder_ / "one", had);
  EXPECT_NE(checked("one").find("resources.json: threads = 0: must be from 1"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
