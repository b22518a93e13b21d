// `lockstep verify` as a user has it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "app/cli/commands.h"
#include "app/verify/verify_output.h"
#include "base/error.h"
#include "device/cuda/cuda_runtime.h"
#include "io/file.h"
#include "lab/verify/verify_model.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

struct Said {
  int code = 0;
  std::string text;
};
Said said(const Arguments& arguments) {
  testing::internal::CaptureStdout();
  Said result;
  result.code = verify_command().run(arguments);
  result.text = testing::internal::GetCapturedStdout();
  return result;
}

std::string refusal(const Arguments& arguments) {
  testing::internal::CaptureStdout();
  std::string text;
  try {
    verify_command().run(arguments);
  } catch (const UserError& error) {
    text = error.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << "nothing is printed before a refusal";
  return text;
}

lab::LayoutReport broken() {
  return {.model = "gpt2",
          .layout = "dp=2,gas=2,zero=3",
          .against = "dp=2,gas=2",
          .promises_bits = true,
          .ranks = 2,
          .steps = 3,
          .seconds = 0.25,
          .verdict = lab::Verdict::wrong,
          .worst = "gradient of a<b>",
          .error = 0.5,
          .wrong = {"step 0, layer h.1, rank 1: gradient of a<b> differs", "7 more tensors and numbers of its steps differ"}};
}

TEST(VerifyCommand, PrintsALineForEachLayoutAndASummary) {
  const Said result = said({"--model", "gpt2", "--layouts", "dp=2,zero=3;dp=1,recompute=full", "--steps", "1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.text.starts_with("gpt2: 8 blocks of width 48, 306,208 parameters, fp32, dropout; 1 step, ")) << result.text;
  for (const char* part : {"\ndp=2,gas=2 ", "\ndp=2,gas=2,zero=3 ", " bit-equal ", "\ndp=1,gas=4,recompute=full ",
                           "\n3 layouts: 2 bit-equal, 1 within tolerance, 0 WRONG; "}) {
    EXPECT_NE(result.text.find(part), std::string::npos) << part << " in " << result.text;
  }
}

// A norm behind the feed-forward layer reads what its last matrix gives, so that is run again too, tile by tile.
TEST(VerifyCommand, RunsBlocksWithNormsBehindBranchesAgain) {
  const Said result =
      said({"--model", "gemma3", "--steps", "2", "--layouts",
            "dp=2,gas=2,zero=3,recompute=full,tiles=2x1;dp=2,gas=2,zero=3,recompute=every:3,tiles=2x3;"
            "dp=2,gas=2,zero=3,recompute=selective,tiles=2x1;dp=2,pp=2:zb-v,gas=2,zero=3,recompute=full,tiles=2x1"});
  EXPECT_EQ(result.code, 0) << result.text;
}

TEST(VerifyCommand, ProvesOtherOptimizers) {
  for (const char* name : {"lars", "muon"}) {
    const Said result = said({"--model", "llama", "--layouts", "dp=2,zero=3;tp=2", "--steps", "2", "--optimizer", name});
    EXPECT_EQ(result.code, 0);
    EXPECT_NE(result.text.find(fmt::format(", fp32, {}; 2 steps", name)), std::string::npos) << result.text;
    EXPECT_NE(result.text.find("3 layouts: 1 bit-equal, 2 within tolerance, 0 WRONG"), std::string::npos) << result.text;
    EXPECT_NE(refusal({"--layouts", "dp=2,ps=1", "--optimizer", name})
                  .find(fmt::format("{} needs whole tensors, and parameter servers hold parts of them", name)),
              std::string::npos);
  }
}

TEST(VerifyCommand, WritesJsonAndAPage) {
  const TempFolder folder;
  const std::string page = (folder / "proof.html").string();
  const Said result = said({"--layouts", "dp=2", "--steps", "1", "--json", "--html", page, "--dtype", "bf16"});
  EXPECT_EQ(result.code, 0);
  const Json json = Json::parse(result.text);
  EXPECT_TRUE(json.at("holds").boolean());
  const Json::Array& layouts = json.at("layouts").array();
  ASSERT_EQ(layouts.size(), lab::verify_model_names().size()) << "of all models";
  EXPECT_EQ(layouts[1].at("model").string(), "llama");
  EXPECT_EQ(layouts[1].at("verdict").string(), "within tolerance");
  EXPECT_EQ(layouts[1].at("against").string(), "dp=1,gas=4");
  EXPECT_GT(layouts[1].at("error").number(), 0);
  const std::string html = io::read_file(page);
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  for (const char* part : {"every promise holds", "<h2>gpt2</h2>", "<h2>llama</h2>", "<code>dp=2,gas=2</code>", "</html>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("src="), std::string::npos) << "the page needs no other file";
}

TEST(VerifyCommand, ABrokenPromiseIsShownWhereverItIsShown) {
  const std::vector<lab::LayoutReport> reports{broken()};
  EXPECT_FALSE(all_hold(reports));
  const std::string line = table_line(broken());
  for (const char* part : {"WRONG", "5.0e-01", "    against dp=2,gas=2, which it must equal in every bit\n",
                           "    step 0, layer h.1, rank 1: gradient of a<b> differs\n"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
  EXPECT_NE(summary(reports).find("1 layout: 0 bit-equal, 0 within tolerance, 1 WRONG"), std::string::npos);
  const Json json = table_of({broken()}).rows().at(0);
  EXPECT_EQ(json.at("verdict").string(), "WRONG");
  EXPECT_EQ(json.at("wrong").array().size(), 2U);
  const std::string page = to_html({lab::verify_model("gpt2", DType::f32)}, reports);
  EXPECT_NE(page.find("a promise is broken"), std::string::npos);
  EXPECT_NE(page.find("<li>step 0, layer h.1, rank 1: gradient of a&lt;b&gt; differs</li>"), std::string::npos);
}

lab::LayoutReport failed(std::exception_ptr thrown) {
  return {.model = "gpt2",
          .layout = "dp=2,gas=2,zero=3",
          .against = "dp=2,gas=2",
          .promises_bits = true,
          .verdict = lab::Verdict::error,
          .failure = {std::move(thrown), "no <room>\n  -> make some"}};
}

TEST(VerifyCommand, AnErrorIsShownApartFromABrokenPromise) {
  const lab::LayoutReport user = failed(std::make_exception_ptr(UserError("no room"))),
                          machine = failed(std::make_exception_ptr(SystemError("no room"))),
                          bug = failed(std::make_exception_ptr(BrokenRule("no room")));
  EXPECT_EQ(table_line(user).substr(0, 54), "dp=2,gas=2,zero=3                                error");
  EXPECT_NE(table_line(user).find("\n    the run failed: no <room>\n      -> make some\n"), std::string::npos)
      << table_line(user);
  EXPECT_EQ(table_line(user).find("WRONG"), std::string::npos);
  EXPECT_NE(summary({user}).find("0 WRONG, 1 ended with an error; "), std::string::npos) << summary({user});
  EXPECT_FALSE(all_hold({user}));
  EXPECT_EQ(table_of({user}).rows().at(0).at("verdict").string(), "error");
  EXPECT_EQ(table_of({user}).rows().at(0).at("reason").string(), "no <room>\n  -> make some");
  EXPECT_TRUE(table_of({broken()}).rows().at(0).at("reason").is_null());
  const std::string page = to_html({lab::verify_model("gpt2", DType::f32)}, {user});
  EXPECT_NE(page.find("not every layout was proven"), std::string::npos);
  EXPECT_NE(page.find("<li>the run failed: no &lt;room&gt;"), std::string::npos);
  const std::string both = to_html({lab::verify_model("gpt2", DType::f32)}, {user, broken()});
  EXPECT_NE(both.find("a promise is broken"), std::string::npos);

  EXPECT_EQ(exit_code({}), 0);
  EXPECT_EQ(exit_code({user, user}), 2);
  EXPECT_EQ(exit_code({user, machine}), 1);
  EXPECT_EQ(exit_code({machine, bug}), 70);
  EXPECT_EQ(exit_code({bug, broken()}), 1);
}

// A folder in which nobody can make a file, and one that is not there.
TEST(VerifyCommand, AFolderForTemporaryFilesThatCannotBeUsedIsNamed) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  for (const std::string folder : {"/proc", "/nowhere"}) {
    setenv("TMPDIR", folder.c_str(), 1);
    const Said result = said({"--model", "gpt2", "--layouts", "dp=1,offload=params;dp=1", "--steps", "1"});
    EXPECT_EQ(result.code, 2) << result.text;
    for (const std::string& part : {fmt::format("\n{:<48} error ", "dp=1,gas=4,offload=params"),
                                    "the run failed: TMPDIR=" + folder + ": ", std::string("set TMPDIR to a folder"),
                                    std::string("1 bit-equal, 0 within tolerance, 0 WRONG, 1 ended with an error; ")})
      EXPECT_NE(result.text.find(part), std::string::npos) << part << " in " << result.text;
  }
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
}

TEST(VerifyCommand, BadInputIsRefusedAllAtOnce) {
  const std::string several = refusal({"--layouts", "dp=2,zero=9;tp=two;dp=2", "--steps", "0"});
  for (const char* part : {"zero=9 in the layout dp=2,zero=9: must be", "tp", "--steps 0: must be from 1"})
    EXPECT_NE(several.find(part), std::string::npos) << part << " in " << several;
  EXPECT_NE(refusal({"--layouts", ";"}).find("--layouts: there is none"), std::string::npos);
  EXPECT_NE(refusal({"--layouts", "dp=3,zero=1,zero_group=node"}).find("layout dp=3,gas=2,zero=1"), std::string::npos);
  EXPECT_NE(refusal({"--html", "nowhere/proof.html"}).find("there is no folder nowhere"), std::string::npos);
  EXPECT_NE(refusal({"--dtype", "fp8"}).find("--dtype"), std::string::npos);
  EXPECT_NE(refusal({"--model", "bert"}).find("--model"), std::string::npos);
}

TEST(VerifyCommand, AGpuIsRefusedWhereThereCanBeNone) {
  EXPECT_EQ(refusal({"--device", "cuda", "--serve"}),
            "--device cuda: --against and --serve are of the processor\n  -> leave --device out");
  if (cuda::is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_EQ(refusal({"--device", "cuda"}).find("--device cuda: this program was built without CUDA\n  -> make cuda"), 0U);
}

TEST(VerifyCommand, RanksOfALauncherAreRefused) {
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const std::string text = refusal({"--layouts", "dp=2"});
  unsetenv("OMPI_COMM_WORLD_RANK");
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_NE(text.find("its ranks are threads of one process\n  -> start it without "), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::app
