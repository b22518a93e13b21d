// `lockstep plan`: schedules drawn and compared; formulas.

#include <gtest/gtest.h>

#include "app/plan_command.h"
#include "app/start/resources.h"
#include "base/error.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

TEST(Plan, DrawsEveryRanksPasses) {
  EXPECT_EQ(printed({"draw", "parallel.pp=2", "parallel.schedule=zb-h1", "optimizer.gas=3"}),
            "zb-h1: 2 ranks, 1 chunk each, 3 micro-batches\n\n"
            "rank 0  F0 F1    I0 W0 F2 I1 W1 I2 W2\n"
            "rank 1     F0 I0 F1 I1 W0 F2 I2 W1 W2\n\n"
            "time 10, of which ranks wait 10.0 %; a rank keeps at most 2 micro-batches and sends 3 messages\n");
}

TEST(Plan, LongSchedulesGoOnBelowAndLaterChunksHaveSmallLetters) {
  const std::string text = printed({"draw", "--columns", "30", "parallel.pp=2", "parallel.schedule=zb-v", "optimizer.gas=2"});
  EXPECT_NE(text.find("rank 0  F0 F1 "), std::string::npos);
  EXPECT_NE(text.find("f0"), std::string::npos);
  EXPECT_NE(text.find("\n\nrank 0  "), std::string::npos);
  for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
    end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    EXPECT_TRUE(!line.starts_with("rank") || line.size() <= 30) << line;
  }
}

TEST(Plan, ComparesAllSchedules) {
  const std::string text = told({"compare", "parallel.pp=8", "optimizer.gas=12"});
  EXPECT_NE(text.find("\n1f1b 1 57 36.8 % 8 24\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ndualpipe-v optimizer.gas = 12: schedule dualpipe-v needs at least 2"), std::string::npos) << text;
}

TEST(Plan, AComparisonRefusesWhatADrawingDoes) {
  for (const char* kind : {"--csv", "--json"})
    EXPECT_NE(refusal({"compare", kind, "parallel.pp=1", "optimizer.gas=8"}).find("one rank has no pipeline to draw"),
              std::string::npos);
  const std::string file = refusal({"compare", "parallel.schedule=file:i.csv"});
  EXPECT_NE(file.find("parallel.schedule = file:i.csv: compare has a line for each schedule"), std::string::npos) << file;
  EXPECT_NE(file.find("lockstep plan draw parallel.schedule=file:i.csv"), std::string::npos) << file;
  const std::string one = told({"compare", "parallel.virtual_stages=1"});
  EXPECT_NE(one.find("interleaved parallel.virtual_stages = 1: schedule interleaved has at least two chunks"), std::string::npos)
      << one;
  EXPECT_NE(one.find("\nzb-v 2 "), std::string::npos) << one;
}

TEST(Plan, WritesAPictureAndATableThatItReads) {
  const TempFolder folder;
  const std::string svg = (folder / "s.svg").string(), csv = (folder / "s.csv").string();
  const Arguments made{"draw", "parallel.pp=2", "optimizer.gas=3", "parallel.schedule=interleaved", "--svg", svg, "--csv", csv};
  const std::string drawn = printed(made), again = printed({"draw", "parallel.schedule=file:" + csv});
  io::replace_file(csv, "\xEF\xBB\xBF" + io::read_file(csv));  // as some programs save tables
  EXPECT_EQ(printed({"draw", "parallel.schedule=file:" + csv}), again);
  EXPECT_EQ(drawn.substr(drawn.find('\n')), again.substr(again.find('\n')));
  EXPECT_TRUE(again.starts_with("s.csv: 2 ranks, 2 chunks each, 3 micro-batches\n"));
  const std::string picture = io::read_file(svg);
  EXPECT_TRUE(picture.starts_with("<svg xmlns="));
  EXPECT_NE(picture.find("interleaved: 2 ranks, 2 chunks each, 3 micro-batches"), std::string::npos);
}

TEST(Plan, TimesOfPassesDecide) {
  EXPECT_NE(printed({"draw", "--times", "1,1.2,0.8", "parallel.pp=8", "optimizer.gas=32", "parallel.schedule=zb-h1"})
                .find("time 105.8, "),
            std::string::npos);
}

TEST(Plan, WhatCannotBeDrawnIsRefused) {
  EXPECT_EQ(refusal({"flop"}), "unknown question 'flop'\n  -> did you mean lockstep plan flops?");
  EXPECT_NE(
      refusal({"draw", "parallel.schedule=2f2b"}).find("parallel.schedule = 2f2b: there is no such schedule\n  -> one of 1f1b"),
      std::string::npos);
  const std::string two = refusal({"draw", "parallel.pp=0", "optimizer.gas=x", "model.n_layer=3"});
  EXPECT_NE(two.find("parallel.pp=0: must be a whole number from 1 to 512"), std::string::npos);
  EXPECT_NE(two.find("optimizer.gas=x: must be a whole number"), std::string::npos);
  EXPECT_NE(two.find("model.n_layer=3: a schedule does not depend on this setting"), std::string::npos);
  EXPECT_NE(refusal({"draw", "parallel.pp=1"}).find("one rank has no pipeline to draw"), std::string::npos);
  EXPECT_NE(refusal({"draw", "parallel.virtual_stages=2"}).find("schedule 1f1b has one chunk a rank"), std::string::npos);
  EXPECT_NE(refusal({"draw", "--columns", "3"}).find("--columns 3: must be from 20"), std::string::npos);
  for (const char* times : {"1,2", "1,2,3,4", "1,2,x", "0,1,1", "1,1,1,"}) {
    EXPECT_NE(refusal({"draw", "--times", times}).find("must be three positive numbers"), std::string::npos) << times;
  }
}

TEST(Plan, ATableThatIsNoneOrContradictsIsRefused) {
  const TempFolder folder;
  const std::string csv = (folder / "s.csv").string();
  EXPECT_NE(refusal({"draw", "parallel.schedule=file:" + csv}).find("s.csv is no file"), std::string::npos);
  EXPECT_NE(refusal({"draw", "parallel.schedule=file:" + folder.path().string()}).find(" is no file"), std::string::npos);
  io::replace_file(csv, "0F0,0B0\n1F0,1B0\n");
  const std::string two = refusal({"draw", "parallel.schedule=file:" + csv, "parallel.pp=4", "optimizer.gas=2"});
  EXPECT_NE(two.find("parallel.pp = 4: the table of "), std::string::npos);
  EXPECT_NE(two.find("optimizer.gas = 2: the table of "), std::string::npos);
  io::replace_file(csv, "0B0,0F0\n1F0,1B0\n");
  EXPECT_NE(refusal({"draw", "parallel.schedule=file:" + csv}).find("the ranks wait for each other"), std::string::npos);
}

TEST(Plan, FormulasPrintTheFiguresThatWerePublished) {
  EXPECT_TRUE(printed({"flops", "--params", "52e9", "--devices", "64", "--global-batch", "1024", "--seq", "2048", "--seconds",
                       "127", "--recompute", "full"})
                  .starts_with("107.33 TFLOPS a device"));
  Arguments network{"network", "--params", "80e9", "--devices",   "512", "--global-batch", "3584", "--seq",
                    "1024",    "--tflops", "250",  "--recompute", "full"};
  EXPECT_EQ(printed(network).find("bound:"), std::string::npos) << "nothing is said of a network that is not known";
  network.insert(network.end(), {"--busbw", "42.5"});
  const std::string text = told(network);
  for (const char* figure : {" 11.3 s\n", " 18.35 s\n", "\ncompute-bound"})
    EXPECT_NE(text.find(figure), std::string::npos) << text;
  network.back() = "8.5";
  EXPECT_NE(printed(network).find("does not help: faster kernels"), std::string::npos);
  EXPECT_EQ(printed({"law", "--params", "7.5e9", "--devices", "64"}), "120 31.4 16.6 1.9 GB\n");
  EXPECT_NE(told({"waves", "--tiles", "152", "--units", "148,152"}).find("\n152 1 100.0 % 2.000\n"), std::string::npos);
  EXPECT_TRUE(printed({"waves", "--product", "8192x14336", "--units", "148"}).starts_with("3,584 tiles of 128x256, 100.0 %"));
}

TEST(Plan, AnswersAreJsonCsvAndFilesToo) {
  const TempFolder folder;
  const std::string file = (folder / "law.json").string();
  const Arguments law{"law", "--params", "7.5e9", "--devices", "64", "--json", "--out", file};
  EXPECT_EQ(printed(law), "");
  EXPECT_EQ(io::read_file(file), "{\"bytes\":[120000000000.0,31406250000.0,16640625000.0,1875000000.0]}\n");
  EXPECT_NE(refusal(law).find("law.json: a file of that name is there"), std::string::npos);
  EXPECT_EQ(printed({"waves", "--tiles", "152", "--units", "152", "--csv"}), "units,waves,filled,speedup\n152,1,1.0,1.0\n");
  EXPECT_NE(printed({"compare", "--json"}).find("{\"schedules\":[{\"schedule\":\"1f1b\",\"chunks\":1,"), std::string::npos);
  EXPECT_NE(refusal({"compare", "--json", "--csv"}).find("--json and --csv are two formats"), std::string::npos);
}

TEST(Plan, EveryQuestionHasHelp) {
  for (const char* question :
       {"search", "advise", "simulate", "check", "draw", "compare", "published", "flops", "network", "memory", "waves", "law"})
    EXPECT_TRUE(printed({question, "--help"}).starts_with(std::string("usage: lockstep plan ") + question)) << question;
}

TEST(Plan, PublishedFiguresStandBesideOurs) {
  const std::string text = told({"published"});
  EXPECT_NE(text.find(" 128 142 142 -0.0 % b 8\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n25 of 30 are within 10 %; of one rate for all of them, "), std::string::npos) << text;
}

TEST(Plan, MemoryByTheRuleStandsBesideOurOwn) {
  const std::string text = told({"memory", "--model", "llama3_8B", "--seq", "32768", "--micro-batch", "1"});
  EXPECT_NE(text.find("\nby the rule 30.66 GiB 239.66 GiB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nas a run of ours declares "), std::string::npos) << text;
  const std::string small = told({"memory", "default", "--seq", "16"});
  EXPECT_EQ(small.find(" GiB"), std::string::npos) << "of a small model each row has its own unit: " << small;
  EXPECT_NE(told({"memory", "gpt2", "--copies", "1e30"}).find(" EiB"), std::string::npos);
}

TEST(Plan, ARecipesVocabularyIsSaidWithWhereItIsFrom) {
  const TempFolder folder;
  const std::string recipe = (folder / "small.toml").string(), data = (folder / "data").string();
  io::replace_file(recipe, "[model]\nn_layer = 2\nn_embd = 64\nn_head = 2\nblock_size = 8\n[data]\ndir = \"" + data + "\"\n");
  const std::vector<Arguments> questions{{"simulate", recipe}, {"search", recipe, "a100", "--gpus", "1"}, {"memory", recipe}};
  for (const Arguments& question : questions) {
    EXPECT_NE(printed(question).find("vocabulary: 50,304 tokens, for no prepared text is in " + data +
                                     "; vocab_size = N under [model] of a recipe says another\n"),
              std::string::npos)
        << question[0];
  }
  io::make_folders(data);
  io::replace_file(data + "/tokens.json",
                   R"({"format": "lockstep-tokens", "version": 1, "tokenizer": {}, "vocabulary": 13, "dtype": "uint16",
                       "characters": 40, "files": {}})");
  for (const Arguments& question : questions)
    EXPECT_NE(printed(question).find("vocabulary: 13 tokens, which the text in " + data + " has;"), std::string::npos)
        << question[0];
  EXPECT_NE(printed({"memory", "gpt2"}).find("vocabulary: 50,304 tokens, for a text decides this preset's;"), std::string::npos);
  EXPECT_EQ(printed({"memory", "llama3_8B"}).find("vocabulary:"), std::string::npos);
}

TEST(Plan, ARunsVocabularyIsTheOneThatItHad) {
  const TempFolder folder;
  const std::string recipe = (folder / "config.toml").string();
  io::replace_file(recipe, "[model]\nn_layer = 2\nn_embd = 64\nn_head = 2\nblock_size = 8\n");
  write_resources(folder.path(), {.vocabulary = 77});
  for (const std::string& name : {recipe, folder.path().string()}) {
    for (const char* question : {"simulate", "memory"})
      EXPECT_NE(printed({question, name}).find("vocabulary: 77 tokens, which its run had;"), std::string::npos)
          << question << name;
  }
  io::replace_file(recipe, io::read_file(recipe) + "vocab_size = 80\n");
  EXPECT_EQ(printed({"simulate", recipe}).find("vocabulary:"), std::string::npos);
  EXPECT_NE(printed({"simulate", recipe, "--json"}).find("\"vocabulary\":80"), std::string::npos);
}

TEST(Plan, AdviceHasAnswerReasonAndSettings) {
  const Arguments question{"advise",    "params=200e9", "largest_layer=1GiB", "activations=0", "device_memory=80GB",
                           "devices=8", "nodes=4",      "inter=slow"};
  EXPECT_EQ(printed(question),
            "Multi-node, slow inter-node and still low on GPU memory:\n  DP + PP + TP + ZeRO-1\n"
            "because 18 B x 200 G parameters + 0 B of activations = 3.27 TiB against 596.05 GiB of a node\n"
            "settings to begin with: parallel.tp=8 parallel.pp=4 memory.zero=1\n"
            "also: TP <= GPUS_PER_NODE: tensor parallelism exchanges activations in every layer, so parallel.tp <= 8\n");
}

TEST(Plan, AmountsAreOnesThatThereCanBe) {
  const std::string law = refusal({"law", "--params", "1.5", "--devices", "0.5"});
  EXPECT_NE(law.find("--params 1.5: must be a whole number from 1 to 1e+18"), std::string::npos) << law;
  EXPECT_NE(law.find("--devices 0.5: must be a whole number from 1 to 1e+18"), std::string::npos) << law;
  const std::string flops = refusal({"flops", "--params", "52e9", "--devices", "64", "--global-batch", "1024", "--seq", "2048",
                                     "--seconds", "1e-320", "--peak", "1e-320"});
  for (const char* part : {"--seconds 1e-320: must be from 1e-12 to 1e+18", "--peak 1e-320: must be from 1e-12 to 1e+18, or 0"})
    EXPECT_NE(flops.find(part), std::string::npos) << part << flops;
  const std::string network = refusal({"network", "--strategy", "zero3", "--params", "8e10", "--devices", "8.5", "--global-batch",
                                       "64", "--seq", "1024", "--tflops", "250", "--busbw", "-1", "--gas", "0.5"});
  for (const char* part : {"--devices 8.5", "--busbw -1", "--gas 0.5"})
    EXPECT_NE(network.find(part), std::string::npos) << part << network;
  EXPECT_EQ(printed({"flops", "--params", "1e18", "--devices", "1", "--global-batch", "1e18", "--seq", "1e18", "--seconds", "1"}),
            "6e+42 TFLOPS a device\n");
}

TEST(Plan, ActivationsThatCannotBeCountedAreRefused) {
  const std::string text = refusal({"memory", "--model", "gpt2", "--seq", "16777216", "--micro-batch", "16777216"});
  EXPECT_NE(text.find("16777216 x 16777216 tokens"), std::string::npos) << text;
}

TEST(Plan, AnAmountThatIsThereTwiceIsRefused) {
  const std::string advice = refusal({"advise", "params=7e9", "largest_layer=1GiB", "activations=0", "device_memory=80GB",
                                      "devices=8", "nodes=4", "params=8e9"});
  EXPECT_NE(advice.find("params=7e9 and params=8e9: two values of one amount"), std::string::npos) << advice;
}

TEST(Plan, AStepIsNotFasterThanThePeakOfItsDevices) {
  const Arguments step{"flops", "--params", "1e9", "--devices", "1", "--global-batch", "1", "--seq", "1024", "--peak", "312"};
  Arguments fast = step, slow = step;
  fast.insert(fast.end(), {"--seconds", "1e-9"});
  slow.insert(slow.end(), {"--seconds", "1"});
  EXPECT_NE(refusal(fast).find("--seconds 1e-09: the devices would reach 6.144e+09 TFLOPS each, above --peak 312"),
            std::string::npos)
      << refusal(fast);
  EXPECT_NE(printed(slow).find("MFU 2.0 %"), std::string::npos) << printed(slow);
}

TEST(Plan, ANetworksAdviceIsOneThatTheStrategyCanTake) {
  const auto advice = [](const std::string& strategy) {
    return printed({"network", "--strategy", strategy, "--params", "8e10", "--devices", "512", "--global-batch", "512", "--seq",
                    "1024", "--tflops", "250", "--busbw", "1"});
  };
  EXPECT_NE(advice("zero3").find("ranks that share out less (memory.zero=1)"), std::string::npos) << advice("zero3");
  EXPECT_NE(advice("zero3").find("ranks that share out inside a node (memory.zero_group=node)"), std::string::npos);
  EXPECT_NE(advice("zero2").find("ranks that share out less (memory.zero=1)"), std::string::npos) << advice("zero2");
  EXPECT_EQ(advice("zero2").find("zero_group"), std::string::npos) << "which divides weights alone";
  for (const char* strategy : {"ddp", "zero1"}) EXPECT_EQ(advice(strategy).find("share out"), std::string::npos) << strategy;
}

TEST(Plan, QuestionsNameAllThatTheyMiss) {
  const std::string advice = refusal({"advise", "params=x", "devices=0", "foo=1", "intra=3", "layer=1"});
  for (const char* part : {"params=x: must be a number above 0", "largest_layer= is missing", "device_memory= is missing",
                           "devices=0: must be a whole number", "nodes= is missing", "intra=3: must be fast or slow",
                           "foo=1: the advice does not depend on it"}) {
    EXPECT_NE(advice.find(part), std::string::npos) << advice;
  }
  const std::string flops = refusal({"flops", "--params", "-1", "--devices", "3", "--seq", "inf"});
  for (const char* part : {"--params: '-1' is not a number above 0", "--seq: 'inf' is not", "--global-batch N is missing",
                           "--seconds S is missing"}) {
    EXPECT_NE(flops.find(part), std::string::npos) << flops;
  }
  const std::string memory = refusal({"memory", "--model", "gpt5", "--seq", "-1", "--micro-batch", "0"});
  for (const char* part : {"--seq -1: must be", "--micro-batch 0: must be", "model gpt5: neither a preset nor a file"}) {
    EXPECT_NE(memory.find(part), std::string::npos) << memory;
  }
  const TempFolder folder;
  io::replace_file(folder / "notes", "text");
  EXPECT_NE(refusal({"memory", folder.path()}).find(": this folder has neither config.json nor config.toml"), std::string::npos);
  EXPECT_NE(refusal({"memory", folder / "notes"}).find(": its name ends neither in .toml nor in .json"), std::string::npos);
  const std::string waves = refusal({"waves", "--tiles", "3", "--product", "3", "--units", "0"});
  for (const char* part : {"--units 0: must be whole numbers", "--product 3: must be two", "--tiles and --product"}) {
    EXPECT_NE(waves.find(part), std::string::npos) << waves;
  }
  EXPECT_NE(refusal({"waves", "--units", "148", "--tiles", "0"}).find("--tiles 0: there is at least one tile"),
            std::string::npos);
  EXPECT_EQ(refusal({"waves"}),
            "--units N,N is missing\n  -> --units 148,152\n--tiles N or --product MxN is missing\n  -> --tiles 152, or "
            "--product 8192x14336");
  EXPECT_NE(refusal({"network", "--busbw", "-1", "--params", "1", "--devices", "1", "--global-batch", "1", "--seq", "1",
                     "--tflops", "1"})
                .find("--busbw -1: must be from 1e-12 to 1e+18, or 0"),
            std::string::npos);
  EXPECT_NE(
      refusal({"flops", "--peak", "-1", "--params", "1", "--devices", "1", "--global-batch", "1", "--seq", "1", "--seconds", "1"})
          .find("--peak -1: must be from 1e-12 to 1e+18, or 0"),
      std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
