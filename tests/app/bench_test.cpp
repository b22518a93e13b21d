#include <gtest/gtest.h>

#include "app/commands.h"
#include "base/error.h"
#include "base/json.h"

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

std::string printed(const Arguments& arguments) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench_command().run(arguments), 0);
  return testing::internal::GetCapturedStdout();
}

TEST(Bench, HelpListsTheBenches) {
  for (const Arguments& arguments : {Arguments{}, Arguments{"--help"}}) {
    const std::string help = printed(arguments);
    EXPECT_NE(help.find("\n  step "), std::string::npos);
    EXPECT_NE(help.find("\n  gemm "), std::string::npos);
  }
  EXPECT_NE(printed({"step", "--help"}).find("--seconds S"), std::string::npos);
  EXPECT_NE(printed({"gemm", "--help"}).find("--rounds N"), std::string::npos);
}

TEST(Bench, AnUnknownBenchNamesTheKnownOnes) {
  const std::string error = error_of({"steps"});
  EXPECT_NE(error.find("'steps'"), std::string::npos);
  EXPECT_NE(error.find("gemm, step"), std::string::npos);
}

TEST(Bench, BadOptionsAreRefused) {
  EXPECT_NE(error_of({"step", "--shape", "huge"}).find("gpt2:4x64"), std::string::npos);
  EXPECT_NE(error_of({"step", "--dtype", "bf16"}).find("--dtype fp32"), std::string::npos);
  EXPECT_NE(error_of({"step", "--steps", "0"}).find("at least 1"), std::string::npos);
  EXPECT_NE(error_of({"gemm", "--shape", "huge"}).find("gpt2:4x64"), std::string::npos);
  EXPECT_NE(error_of({"gemm", "--rounds", "0"}).find("at least 1"), std::string::npos);
}

TEST(Bench, StepPrintsOneLineOfJson) {
  const std::string text = printed({"step", "--shape", "tiny", "--steps", "3", "--seconds", "1", "--no-floor", "--json"});
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const Json json = Json::parse(text);
  EXPECT_EQ(json.at("shape").string(), "tiny");
  EXPECT_GE(json.at("steps").integer(), 3);
  EXPECT_TRUE(json.at("floor_ratio").is_null());
}

}  // namespace
}  // namespace lockstep::app
