// `lockstep demo`: one hash for every layout, kill, instruction set and C library; faults that are found; what is refused.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "app/cli/commands.h"
#include "app/demo/demo_text.h"
#include "app/demo/demo_training.h"
#include "app/program.h"
#include "base/json.h"
#include "checkpoint/find.h"
#include "lab/verify/planted_faults.h"
#include "lab/verify/verify.h"

namespace lockstep::app {
namespace {

TEST(DemoText, IsAFunctionOfItsSeed) {
  const std::string text = demo_text(7, 20000);
  EXPECT_GE(text.size(), 20000U);
  EXPECT_LT(text.size(), 22000U);
  EXPECT_TRUE(text.ends_with(".\n"));
  EXPECT_EQ(text, demo_text(7, 20000));
  EXPECT_TRUE(demo_text(7, 30000).starts_with(text));
  EXPECT_NE(text, demo_text(8, 20000));
  EXPECT_LE(std::set<char>(text.begin(), text.end()).size(), 32U);
  EXPECT_EQ(text.find("  "), std::string::npos);
  EXPECT_EQ(text.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ|"), std::string::npos) << "a symbol of the grammar was left";
  EXPECT_EQ(demo_text(1337, 1).find('\n'), demo_text(1337, 1).size() - 1);
}

std::vector<std::string> problems_of(const std::string& words) {
  std::vector<Problem> problems;
  EXPECT_FALSE(demo_layout(words, problems).has_value());
  std::vector<std::string> texts;
  for (const Problem& problem : problems) texts.push_back(problem.message + " -> " + problem.remedy);
  return texts;
}

TEST(DemoLayout, EveryOneThatIsDrawnIsLegal) {
  std::set<std::string> names;
  for (std::uint64_t number = 0; number < 40; ++number) {
    std::vector<Problem> problems;
    const std::string words = drawn_layout(number);
    const auto layout = demo_layout(words, problems);
    ASSERT_TRUE(layout.has_value()) << words << ": " << problems.front().message;
    EXPECT_TRUE(layout->plan.canonical);
    EXPECT_LE(layout->plan.ranks(), 4);
    names.insert(words);
  }
  EXPECT_EQ(names.size(), 16U);
}

TEST(DemoLayout, WhatChangesTheTrainingIsRefused) {
  for (const auto& [words, text] : std::vector<std::pair<std::string, std::string>>{
           {"dp=3", "16 samples, which 3 micro-batches divide -> choose dp x gas as 1, 2, 4 or 8"},
           {"dp=8,tp=4", "32 ranks, each a thread of this machine -> choose at most 16"},
           {"dp=2,documents", "documents and moments change what is learned -> leave them out"},
           {"dp=2,moments=bf16", "documents and moments change what is learned"},
           {"tp=3", "tp = 3"},
           {"cp=2,context=ring", "ring"},
           {"pd=2", "no layout has this word -> did you mean"}}) {
    const std::vector<std::string> problems = problems_of(words);
    ASSERT_FALSE(problems.empty()) << words;
    EXPECT_NE(problems.front().find(text), std::string::npos) << words << ": " << problems.front();
  }
}

TEST(DemoTraining, ItsWordsSayTheLayout) {
  std::vector<Problem> problems;
  const auto layout = demo_layout("dp=2,pp=2:zb-h1,gas=4,zero=1,bucket=65536,offload=optimizer", problems);
  ASSERT_TRUE(layout.has_value()) << problems.front().message;
  const std::vector<std::string> words = train_words({.folder = "/tmp/demo/run", .layout = *layout, .isa = ops::Isa::avx2});
  for (const char* word : {"train", "data.dir=/tmp/demo/data", "log.dir=/tmp/demo/run", "train.init_from=auto",
                           "model.batch_size=2", "--ranks=4", "parallel.dp=2", "parallel.pp=2", "parallel.schedule=zb-h1",
                           "optimizer.gas=4", "memory.zero=1", "parallel.bucket_bytes=65536", "numerics.canonical=true",
                           "numerics.isa=avx2", "memory.offload_optimizer=nvme", "memory.nvme_path=/tmp/demo"})
    EXPECT_EQ(std::ranges::count(words, word), 1) << word;
}

TEST(DemoTraining, AFailureSaysWhatTheTrainingSaid) {
  const TempFolder folder;
  const DemoOutcome outcome = train_demo({.folder = folder.path() / "run"}, {}, [](std::int64_t, double) {});
  EXPECT_EQ(outcome.code, kUserError) << "there is no text";
  EXPECT_TRUE(outcome.last_words.starts_with("lockstep: ")) << outcome.last_words;
  EXPECT_EQ(outcome.steps, 0);
  EXPECT_FALSE(checkpoint::saved_step(folder.path() / "run").has_value());
}

TEST(DemoTraining, ADamagedWeightHasNoHash) {
  const TempFolder folder;
  prepare_demo(folder.path());
  const io::Path run = folder.path() / "run";
  const DemoOutcome outcome =
      train_demo({.folder = run, .length = short_demo}, short_demo.save_interval + 2, [](std::int64_t, double) {});
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  ASSERT_EQ(checkpoint::saved_step(run), short_demo.save_interval);
  EXPECT_EQ(demo_hash(run).size(), 64U);
  const io::Path file = run / "checkpoints" / fmt::format("step_{}", short_demo.save_interval) / "model.safetensors";
  std::string bytes = io::read_file(file);
  bytes[bytes.size() - 5] ^= 1;
  io::replace_file(file, bytes);
  EXPECT_THROW(demo_hash(run), UserError);
}

lab::LayoutReport report_of(const lab::PlantedFault& fault, const lab::TrialParts& parts) {
  std::vector<Problem> problems;
  const auto layout = demo_layout(std::string(fault.layout), problems);
  EXPECT_TRUE(layout.has_value()) << fault.name;
  const lab::VerifyOptions options{.models = {demo_verify_model(*layout)}, .layouts = {*layout}, .steps = 2};
  EXPECT_TRUE(check(options).empty());
  return lab::verify(options, [](const lab::LayoutReport&) {}, parts).back();
}

TEST(PlantedFaults, EachIsFoundAndNamed) {
  for (const lab::PlantedFault& fault : lab::planted_faults()) {
    lab::TrialParts parts;
    parts.world = [&](comm::Communicator& world) { return std::make_unique<lab::FaultyWorld>(world, fault.make()); };
    const lab::LayoutReport report = report_of(fault, parts);
    EXPECT_EQ(report.verdict, lab::Verdict::wrong) << fault.name << report.failure.reason;
    ASSERT_FALSE(report.wrong.empty()) << fault.name;
    EXPECT_NE(report.wrong.front().find(", layer "), std::string::npos) << fault.name << ": " << report.wrong.front();
  }
  EXPECT_EQ(report_of(lab::planted_faults().front(), {}).verdict, lab::Verdict::bit_equal) << "without it";
  EXPECT_THROW(lab::planted_fault("none"), BrokenRule);
}

struct Said {
  int code;
  std::string text;  // of standard output
};

Said say(const std::string& words, const std::string& environment = "") {
  std::FILE* pipe = popen(fmt::format("{} {} {} 2>/dev/null </dev/null", environment, program(), words).c_str(), "r");
  std::string text;
  char piece[4096];
  for (std::size_t count = 0; (count = std::fread(piece, 1, sizeof piece, pipe)) > 0;) text.append(piece, count);
  return {WEXITSTATUS(pclose(pipe)), text};
}

// All instruction sets of this machine, with a C library whose functions have other last digits.
TEST(DemoCommand, TheHashIsPromisedForEveryProcessorAndCLibrary) {
  const TempFolder folder;
  prepare_demo(folder.path());
  const std::string preload = "LD_PRELOAD=" + (io::Path(program()).parent_path() / "libother_libm.so").string();
  for (const ops::Isa isa : ops::available_isas()) {
    if (isa == ops::Isa::avx512_bf16 || isa == ops::Isa::amx) continue;  // whose kernels of fp32 are those of avx512
    const bool whole = isa == ops::available_isas().front() || isa == ops::Isa::avx512;
    const DemoTraining training{
        .folder = folder.path() / std::string(ops::name_of(isa)), .isa = isa, .length = whole ? whole_demo : short_demo};
    const Said said = say(fmt::format("{}", fmt::join(train_words(training), " ")), preload);
    ASSERT_EQ(said.code, 0) << said.text;
    EXPECT_EQ(demo_hash(training.folder) == training.length.hash, isa != ops::Isa::baseline) << ops::name_of(isa);
  }
}

TEST(DemoCommand, AnswersPrograms) {
  const Said said = say("demo --short --seed 3 --json");
  ASSERT_EQ(said.code, 0) << said.text;
  const Json answer = Json::parse(said.text);
  for (const char* key : {"hash", "second", "promised"}) EXPECT_EQ(answer.at(key).string(), short_demo.hash);
  EXPECT_TRUE(answer.at("equal").boolean());
  EXPECT_GE(answer.at("killed_behind").integer(), answer.at("kill_at").integer());
  EXPECT_LE(answer.at("resumed_from").integer(), answer.at("killed_behind").integer());
}

TEST(DemoCommand, APlantedFaultChangesTheHashAndIsNamed) {
  const Said said = say("demo --short --break drop-bucket");
  EXPECT_EQ(said.code, 0) << said.text;
  EXPECT_NE(said.text.find("promised: not these"), std::string::npos) << said.text;
  EXPECT_NE(said.text.find("The first that differs:\n  step 0, layer "), std::string::npos) << said.text;
}

/// A terminal that a person sits at.
class Person {
 public:
  Person(const std::vector<std::string>& words, const std::vector<std::string>& answers) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_TRUE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    posix_spawn_file_actions_t streams;
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_addopen(&streams, STDIN_FILENO, ptsname(master), O_RDWR | O_NOCTTY, 0);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) posix_spawn_file_actions_adddup2(&streams, STDIN_FILENO, stream);
    setenv("TERM", "xterm", 1);
    const pid_t child = start_program(words, streams);
    for (const std::string& answer : answers) EXPECT_GT(write(master, answer.data(), answer.size()), 0);
    std::thread reader([&] {
      char piece[4096];
      for (ssize_t count = 0; (count = read(master, piece, sizeof piece)) > 0;)
        text.append(piece, static_cast<std::size_t>(count));
    });
    code = end_of(child);
    reader.join();
    close(master);
    posix_spawn_file_actions_destroy(&streams);
  }
  int code = 0;
  std::string text;
};

TEST(DemoCommand, AsksAPersonUntilTheAnswersMakeSense) {
  const Person person({"demo", "--short"}, {"dp=3\n", "dp=2,tp=2\n", "500\n", "9\n"});
  EXPECT_EQ(person.code, 0) << person.text;
  for (const std::string part : {"micro-batches divide", "dp=2,tp=2", "--kill-at 500: must be from 1 to 16",
                                 "kill -9 behind step ", ", resumed from ", "Equal: the layout, the kill and the resume"})
    EXPECT_NE(person.text.find(part), std::string::npos) << part << " in: " << person.text;
}

std::string refusal(const Arguments& arguments) {
  testing::internal::CaptureStdout();
  std::string text;
  try {
    demo_command().run(arguments);
  } catch (const UserError& error) {
    text = error.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << "nothing is printed before a refusal";
  return text;
}

TEST(DemoCommand, RefusesWhatItCannotDo) {
  const TempFolder folder;
  io::replace_file(folder / "mine", "text");
  for (const auto& [words, text] : std::vector<std::pair<Arguments, std::string>>{
           {{"--kill-at", "0"}, "--kill-at 0: must be from 1 to 190"},
           {{"--kill-at", "191"}, "--kill-at 191: must be from 1 to 190"},
           {{"--short", "--kill-at", "17"}, "--kill-at 17: must be from 1 to 16 of 20 steps"},
           {{"--layout", "dp=5"}, "16 samples, which 5 micro-batches divide"},
           {{"--break", "drop-bucket", "--layout", "dp=2"}, "--break drop-bucket: it has a layout of its own"},
           {{"--break", "drop-rank"}, "drop-rank"},
           {{"--isa", "avx9"}, "'avx9' is not known"},
           {{"--dir", folder.path().string()}, "something is there"}})
    EXPECT_NE(refusal(words).find(text), std::string::npos) << text << " in: " << refusal(words);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_NE(refusal({}).find("demo under "), std::string::npos) << refusal({});
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_RANK");
}

}  // namespace
}  // namespace lockstep::app
