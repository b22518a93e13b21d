#include <gtest/gtest.h>

#include "app/cli/commands.h"
#include "base/error.h"
#include "base/json.h"
#include "device/cuda/cuda_runtime.h"
#include "io/file.h"
#include "lab/step/step_shapes.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

std::string error_of(const Arguments& arguments) {
  try {
    bench_command().run(arguments);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string answered(const Arguments& arguments) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench_command().run(arguments), 0);
  return testing::internal::GetCapturedStdout();
}

TEST(Bench, HelpListsTheBenches) {
  for (const Arguments& arguments : {Arguments{}, Arguments{"--help"}}) {
    const std::string help = answered(arguments);
    for (const char* name : {"checkpoint", "collectives", "gemm", "io", "ladder", "loader", "mamf", "overhead", "overlap",
                             "products", "rate", "scaling", "serve", "staleness", "step", "swiglu"})
      EXPECT_NE(help.find(std::string("\n  ") + name + " "), std::string::npos) << help;
  }
  EXPECT_NE(answered({"step", "--help"}).find("--seconds S"), std::string::npos);
  EXPECT_NE(answered({"gemm", "--help"}).find("--rounds N"), std::string::npos);
}

TEST(Bench, AnUnknownBenchNamesTheNearest) {
  EXPECT_EQ(error_of({"steps"}), "unknown bench 'steps'\n  -> did you mean lockstep bench step?");
  EXPECT_EQ(error_of({"xxxxxxxx"}), "unknown bench 'xxxxxxxx'\n  -> lockstep bench --help lists them");
}

TEST(Bench, BadOptionsAreRefused) {
  EXPECT_NE(error_of({"step", "--shape", "huge"}).find("gpt2:4x64"), std::string::npos);
  EXPECT_NE(error_of({"step", "--dtype", "fp16"}).find("bf16"), std::string::npos);
  EXPECT_NE(error_of({"step", "--steps", "0"}).find("at least 1"), std::string::npos);
  EXPECT_NE(error_of({"step", "--layout", "zero=4,pp=0"}).find("zero=4 in the layout zero=4,pp=0: must be"), std::string::npos);
  EXPECT_NE(error_of({"step", "--layout", "zero=4,pp=0"}).find("pp=0 in the layout zero=4,pp=0: must be"), std::string::npos);
  EXPECT_NE(error_of({"step", "--layout", "tp=2", "--ranks", "2"}).find("--ranks 2 and --layout tp=2"), std::string::npos);
  EXPECT_NE(error_of({"step", "--layout", "tp=5"}).find("layout dp=1,tp=5,gas=1: tp = 5"), std::string::npos);
  EXPECT_NE(error_of({"gemm", "--shape", "huge"}).find("gpt2:4x64"), std::string::npos);
  EXPECT_NE(error_of({"gemm", "--rounds", "0"}).find("at least 1"), std::string::npos);
  EXPECT_NE(error_of({"gemm", "--dtype", "fp16"}).find("'fp16' is not one of fp32|float32|bf16|bfloat16"), std::string::npos);
  EXPECT_NE(error_of({"rate", "--seconds", "0"}).find("--seconds 0: must be above 0"), std::string::npos);
}

TEST(Bench, AGpuIsRefusedByABuildWithoutCuda) {
  if (cuda::is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_NE(error_of({"step", "--device", "tpu"}).find("'tpu' is not one of cpu|cuda"), std::string::npos);
  EXPECT_EQ(
      error_of({"step", "--shape", "seed:64x1024", "--device", "cuda", "--dtype", "bf16"}),
      "--device cuda: this program was built without CUDA\n  -> make cuda builds one that has it; --device cpu computes on the "
      "processor");
}

TEST(Bench, RanksOfScalingAreOnesThatThereCanBe) {
  EXPECT_NE(error_of({"scaling", "--shape", "tiny", "--ranks", "2000000000"}).find("--ranks 2000000000: must be from 0 to "),
            std::string::npos);
}

// Products and steps are those of the same shapes.
TEST(Bench, EveryShapeOfAStepHasProducts) {
  const std::string products = answered({"gemm", "--help"}), steps = answered({"step", "--help"});
  for (const std::string& name : lab::step_shape_names()) {
    EXPECT_FALSE(lab::layer_shapes(name).empty());
    for (const std::string* help : {&products, &steps}) EXPECT_NE(help->find(name), std::string::npos) << name << *help;
  }
  EXPECT_NE(error_of({"gemm", "--shape", "gpt5"}).find("gpt2:8x256"), std::string::npos);
}

TEST(Bench, QuestionsAboutProductsAreCheckedAtOnce) {
  const std::string mixed =
      error_of({"mamf", "--m", "0", "--n", "64:32:1", "--k", "1:2", "--trials", "0", "--seconds", "0", "--json", "--csv"});
  for (const char* said : {"--m 0: must be a size from 1", "--n 64:32:1: must be a size", "--k 1:2: must be a size",
                           "--trials 0: must be at least 1", "--seconds 0: must be above 0", "--json and --csv are two formats"})
    EXPECT_NE(mixed.find(said), std::string::npos) << said << "\n" << mixed;
  EXPECT_NE(error_of({"gemm", "--m", "64"}).find("unknown option --m"), std::string::npos);
  EXPECT_NE(error_of({"swiglu", "--hidden", "0"}).find("--hidden 0: must be from 1 to 1048576"), std::string::npos);
  EXPECT_NE(error_of({"mamf", "--m", "1:1000:1", "--n", "1:1000:1"}).find("are more than 100000"), std::string::npos);
  EXPECT_NE(error_of({"products", "--machine", "a100"}).find("--model MODEL is missing"), std::string::npos);
  EXPECT_NE(error_of({"products", "--model", "gpt5", "--machine", "a100"}).find("model gpt5: neither"), std::string::npos);
  EXPECT_NE(error_of({"products", "--model", "gpt2"}).find("MACHINE is missing"), std::string::npos);
  EXPECT_NE(error_of({"products", "--model", "gpt2", "--machine", "a1000"}).find("neither a preset nor a file"),
            std::string::npos);
  TempFolder folder;
  io::replace_file(folder / "cpu.toml", "base = \"a100\"\nunits = 0\n");
  EXPECT_NE(error_of({"products", "--model", "gpt2", "--machine", folder / "cpu.toml"}).find("without tiles and waves"),
            std::string::npos);
}

TEST(Bench, EveryBenchAnswersAsTextJsonAndCsvAndIntoAFile) {
  TempFolder folder;
  const std::string file = (folder / "rate.csv").string();
  EXPECT_EQ(answered({"rate", "--seconds", "0.01", "--csv", "--out", file}), "");
  const io::MappedFile written(file);
  const std::string text(reinterpret_cast<const char*>(written.bytes().data()), written.bytes().size());
  EXPECT_TRUE(text.starts_with("gflops\n")) << text;
  EXPECT_NE(error_of({"rate", "--out", file}).find("--out " + file), std::string::npos);
  const std::string rows = answered({"loader", "--workers", "0,1", "--items", "2", "--batch", "1", "--item-ms", "0",
                                     "--compute-ms", "0", "--rounds", "1", "--csv"});
  EXPECT_TRUE(rows.starts_with("workers,seconds,least_seconds,most_seconds,at_best_seconds,waited_seconds\n0,")) << rows;
}

TEST(Bench, SharedOptionsAreCheckedByTheDriver) {
  const std::string error = error_of({"checkpoint", "--folder", "/none", "--rounds", "0", "--zero", "7"});
  for (const char* said :
       {"--rounds 0: must be at least 1", "--zero 7: must be from 0 to 3", "--folder /none: there is no such folder"})
    EXPECT_NE(error.find(said), std::string::npos) << said << "\n" << error;
  EXPECT_NE(error_of({"overlap", "--bucket-bytes", "0"}).find("--bucket-bytes 0: must be from 1 to"), std::string::npos);
  const std::string loader = error_of({"loader", "--workers", "1,65", "--item-ms", "-1", "--compute-ms", "61000"});
  for (const char* said :
       {"--workers 1,65: must be whole numbers from 0 to 64", "--item-ms -1: must be", "--compute-ms 61000: must be"})
    EXPECT_NE(loader.find(said), std::string::npos) << said << "\n" << loader;
}

TEST(Bench, TheHighestRateIsFoundAmongShapes) {
  const Arguments asked{"mamf", "--m", "32:64:32", "--n", "32", "--k", "16", "--trials", "3", "--warmups", "0"};
  const std::string text = answered(asked);
  EXPECT_NE(text.find("Tried 2 shapes => the best outcomes were:\nmean:   "), std::string::npos) << text;
  for (const char* said : {"32x32x16 ", "64x32x16 ", "geometric mean over shapes: ", "train.peak_tflops="})
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  Arguments as_json = asked;
  as_json.emplace_back("--json");
  const Json json = Json::parse(answered(as_json));
  ASSERT_EQ(json.at("rows").array().size(), 2U);
  EXPECT_EQ(json.at("rows").array()[1].at("m").integer(), 64);
  EXPECT_EQ(json.at("rows").array()[1].at("trials").integer(), 3);
}

TEST(Bench, ProductsOfAModelAreAdvisedOn) {
  const Arguments asked{"products", "--model", "gpt2_xl", "--machine", "a100", "--micro-batch", "4"};
  const std::string text = answered(asked);
  for (const char* said : {"gpt2_xl on a100 (108 units)", "attention out", "model.batch_size=8", "each alone"})
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  Arguments as_json = asked;
  as_json.emplace_back("--json");
  EXPECT_EQ(Json::parse(answered(as_json)).at("products").array().size(), 7U);
}

TEST(Bench, WidthsOfASwigluAreRanked) {
  const Json json = Json::parse(answered({"swiglu", "--hidden", "12", "--tokens", "4", "--rounds", "1", "--json"}));
  EXPECT_EQ(json.at("base").at("d_ff").integer(), 32);
  EXPECT_EQ(json.at("base").at("mlp_params").integer(), 3 * 32 * 12);
  const Json::Array& ranked = json.at("ranked").array();
  ASSERT_EQ(ranked.size(), 32U);  // 4, 8, ... 132 without 32
  for (std::size_t i = 1; i < ranked.size(); ++i) EXPECT_GE(ranked[i - 1].at("share").number(), ranked[i].at("share").number());
}

TEST(Bench, IoIsMeasuredOnSeveralRanks) {
  TempFolder folder;
  const Json json = Json::parse(answered({"io", "--folder", folder.path(), "--bytes", "64KiB", "--batch", "1", "--seq", "64",
                                          "--ranks", "2", "--rounds", "1", "--json"}));
  const Json::Array& rows = json.at("rows").array();
  ASSERT_EQ(rows.size(), 4U);  // files and readers on 1 and 2 ranks
  EXPECT_EQ(rows[3].at("io").string(), "readers");
  EXPECT_EQ(rows[3].at("ranks").integer(), 2);
  EXPECT_NE(error_of({"io", "--bytes", "much"}).find("--bytes much: not a number of bytes"), std::string::npos);
  EXPECT_NE(error_of({"io", "--io", "mpi"}).find("processes of an MPI job"), std::string::npos);
  EXPECT_NE(error_of({"io", "--folder", "/none"}).find("there is no such folder"), std::string::npos);
}

TEST(Bench, LoaderPrintsALineOfJson) {
  const Json json = Json::parse(answered({"loader", "--workers", "0,3", "--items", "4", "--batch", "2", "--item-ms", "0",
                                          "--compute-ms", "0", "--rounds", "1", "--json"}));
  ASSERT_EQ(json.at("rows").array().size(), 2U);
  EXPECT_EQ(json.at("rows").array()[1].at("workers").integer(), 3);
  EXPECT_NE(error_of({"loader", "--workers", "1,x"}).find("--workers 1,x: must be whole numbers"), std::string::npos);
  EXPECT_NE(error_of({"loader", "--items", "7"}).find("--items 7: must be a multiple of --batch 20"), std::string::npos);
}

TEST(Bench, RateIsThatOfThisMoment) {
  const double gflops = Json::parse(answered({"rate", "--seconds", "0.01", "--json"})).at("gflops").number();
  EXPECT_GT(gflops, 0.1);
  EXPECT_LT(gflops, 1e5);
  EXPECT_NE(answered({"rate", "--seconds", "0.01"}).find(" GF/s\n"), std::string::npos);
}

TEST(Bench, BadOptionsOfTheLadderAreRefusedAtOnce) {
  const std::string error = error_of({"ladder", "--rungs", "0-12", "--rounds", "0", "--seconds", "0"});
  EXPECT_NE(error.find("--rungs 0-12: must be numbers and ranges from 0 to 11"), std::string::npos) << error;
  EXPECT_NE(error.find("--rounds 0: must be at least 1"), std::string::npos) << error;
  EXPECT_NE(error.find("--seconds 0: must be above 0"), std::string::npos) << error;
  EXPECT_NE(error_of({"ladder", "--shape", "huge"}).find("gpt2:4x64"), std::string::npos);
}

TEST(Bench, TheLadderMeasuresWhatItClimbs) {
  const Json json =
      Json::parse(answered({"ladder", "--shape", "tiny", "--rungs", "1-2", "--rounds", "1", "--seconds", "0.001", "--json"}));
  const Json::Array& rows = json.at("rows").array();
  ASSERT_EQ(rows.size(), 3U);
  for (const Json& row : rows) EXPECT_GT(row.at("tokens_per_s").number(), 0);
  // The mask lay in every one of 4 layers.
  const std::int64_t masks = 4 * 64 * 64 * 4;
  EXPECT_GE(rows[0].at("memory_bytes").integer(), rows[1].at("memory_bytes").integer() + masks);
  EXPECT_GT(json.at("products_of_rate").number(), 0);
  EXPECT_LT(json.at("products_of_rate").number(), 2);
}

TEST(Bench, BadOptionsOfCollectivesAreRefused) {
  EXPECT_NE(error_of({"collectives", "--op", "shuffle"}).find("all_reduce"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--ranks", "0"}).find("--ranks 0"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--trials", "0"}).find("at least 1"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--warmups", "-1"}).find("--warmups -1: must be at least 0"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--profile-stability"}).find("one payload"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--latency", "--bytes", "64"}).find("fixed sizes"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--objects", "--bytes", "64"}).find("two calls of fixed sizes"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--legacy", "--bytes", "64,128"}).find("one payload and has its own format"),
            std::string::npos);
  EXPECT_NE(error_of({"collectives", "--legacy", "--ranks", "2", "--bytes", "7"}).find("one float each"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--legacy", "--objects"}).find("ask for one at a time"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--op", "barrier", "--bytes", "64"}).find("a barrier has no payload"), std::string::npos);
  for (const char* bytes : {"much", "4096,", "0", "-4", "4KB", "99999999999999999999", "9999999999GiB"}) {
    EXPECT_NE(error_of({"collectives", "--bytes", bytes}).find("not a number of bytes"), std::string::npos) << bytes;
  }
  EXPECT_NE(error_of({"collectives", "--bytes", "1000000GiB"}).find("do not fit"), std::string::npos);
  EXPECT_NE(error_of({"collectives", "--ranks", "2", "--bytes", "7"}).find("one float each"), std::string::npos);
}

TEST(Bench, CollectivesPrintALineOfJsonAPayload) {
  const std::string text =
      answered({"collectives", "--op", "all_gather", "--ranks", "2", "--bytes", "64,4KiB", "--trials", "3", "--json"});
  const std::size_t end = text.find('\n');
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(Json::parse(text.substr(0, end)).at("bytes").integer(), 64);
  const Json second = Json::parse(text.substr(end + 1));
  EXPECT_EQ(second.at("bytes").integer(), 4096);
  EXPECT_EQ(second.at("op").string(), "all_gather");
  EXPECT_EQ(second.at("ranks").integer(), 2);
  EXPECT_EQ(second.at("trials").integer(), 3);
}

TEST(Bench, CollectivesPrintTableAndTrials) {
  const std::string table = answered({"collectives", "--ranks", "2", "--bytes", "64,128", "--trials", "2"});
  EXPECT_NE(table.find("The average bandwidth of all_reduce over 2 ranks (5 warmups / 2 trials):"), std::string::npos);
  EXPECT_NE(table.find("busbw, GBps, 2 ranks"), std::string::npos);
  const std::string trials = answered({"collectives", "--ranks", "2", "--bytes", "64", "--trials", "2", "--profile-stability"});
  EXPECT_NE(trials.find("|       2 |"), std::string::npos);
}

TEST(Bench, CollectivesAreAlsoTimedAsTheyWereIn2023) {
  const std::string text = answered({"collectives", "--legacy", "--ranks", "2", "--bytes", "8KiB", "--trials", "2"});
  EXPECT_NE(text.find(":0 data size: 8.192e-06 GB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("-----------trial-1----------------\n"), std::string::npos) << text;
  EXPECT_NE(answered({"collectives", "--objects", "--ranks", "2", "--trials", "3"}).find("x the time of a tensor"),
            std::string::npos);
  EXPECT_NE(answered({"collectives", "--op", "barrier", "--ranks", "2", "--trials", "3"}).find("A barrier over 2 ranks"),
            std::string::npos);
}

TEST(Bench, StepPrintsOneLineOfJson) {
  const std::string text = answered({"step", "--shape", "tiny", "--steps", "3", "--seconds", "1", "--no-floor", "--json"});
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const Json json = Json::parse(text);
  EXPECT_EQ(json.at("shape").string(), "tiny");
  EXPECT_GE(json.at("steps").integer(), 3);
  EXPECT_TRUE(json.at("floor_ratio").is_null());
}

}  // namespace
}  // namespace lockstep::app
