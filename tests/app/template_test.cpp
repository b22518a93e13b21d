// lockstep template.

#include <gtest/gtest.h>

#include <fstream>

#include "app/cli/commands.h"
#include "app/cli/process.h"
#include "io/file.h"
#include "io/gguf.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

struct Printed {
  int code = 0;
  std::string out, err;
};

Printed printed_of(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_program(std::vector<Command>{template_command()}, words);
  std::fflush(stdout);
  std::string out = testing::internal::GetCapturedStdout();
  return {code, std::move(out), testing::internal::GetCapturedStderr()};
}

class TemplateCommand : public testing::Test {
 protected:
  TemplateCommand() {
    std::ofstream(at("t"))
        << "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
           "{% if add_generation_prompt %}<assistant>{% endif %}{{ strftime_now('%d %b %Y') if day }}{{ mood }}";
    std::ofstream(at("m.json")) << R"([{"role": "user", "content": "Hi ü"}, {"role": "assistant", "content": "Yes"}])";
  }
  std::string at(std::string_view name) const { return folder_ / name; }
  Printed run(std::vector<std::string> more) {
    more.insert(more.begin(), {"template", at("t"), at("m.json"), "--bos", "<s>", "--eos", "</s>"});
    return printed_of(more);
  }
  TempFolder folder_;
};

TEST_F(TemplateCommand, PrintsTheTextAndNothingElse) {
  const Printed plain = run({});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out, "<s><user>Hi ü</s><assistant>Yes</s>");
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(run({"--prompt"}).out, plain.out + "<assistant>");
  EXPECT_EQ(run({"--set", "day=true", "--date", "2026-11-25", "--set", "mood=so so"}).out, plain.out + "25 Nov 2026so so");
}

TEST_F(TemplateCommand, TakesTemplateAndTokensOfAGgufFile) {
  io::Gguf file;
  file.pairs = Json::Object{{"tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}"},
                            {"tokenizer.chat_template.tool_use", "{{ tools[0] }}{{ eos_token }}"},
                            {"tokenizer.ggml.tokens", Json::Array{"<a>", "<b>"}},
                            {"tokenizer.ggml.token_type", Json::Array{3, 3}},
                            {"tokenizer.ggml.bos_token_id", 0},
                            {"tokenizer.ggml.eos_token_id", 1}};
  io::replace_file(at("x.gguf"), io::gguf_header_bytes(file));
  const Printed plain = printed_of({"template", at("x.gguf"), at("m.json")});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out, "<a>Hi ü");
  EXPECT_EQ(printed_of({"template", at("x.gguf"), at("m.json"), "--set", "tools=[7]"}).out, "7<b>");
  file.pairs = Json::Object{{"general.architecture", "llama"}};
  io::replace_file(at("x.gguf"), io::gguf_header_bytes(file));
  const Printed none = printed_of({"template", at("x.gguf"), at("m.json")});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("x.gguf: it has no chat_template"), std::string::npos) << none.err;
}

TEST_F(TemplateCommand, PrintsWhatIsTaughtAsJson) {
  const Printed outcome = run({"--taught"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "[\"Yes</s>\"]\n");
}

TEST_F(TemplateCommand, TeachesNoTurnsOfWhichTheContentIsLost) {
  std::ofstream(at("t")) << "{% for m in messages %}<{{ m.role }}>{{ m.content[0].text }}<end>{% endfor %}";
  const Printed outcome = run({"--taught"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find(" loses the content of message 1 (user)\n"), std::string::npos) << outcome.err;
}

TEST_F(TemplateCommand, RefusesWithTheTemplatesWords) {
  std::ofstream(at("t")) << "{{ raise_exception('System role not supported') }}";
  const Printed outcome = run({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("t, line 1, column 19: the template refuses the messages: System role not supported\n"),
            std::string::npos)
      << outcome.err;
}

TEST_F(TemplateCommand, RefusesWordsThatMeanNothing) {
  for (const char* date : {"2026-02-30", "tomorrow", "2026-11", "2026-13-01"}) {
    const Printed outcome = run({"--date", date});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("--date " + std::string(date) + ": it is no day"), std::string::npos) << outcome.err;
  }
  EXPECT_NE(run({"--set", "x"}).err.find("--set x: a name and a value are expected"), std::string::npos);
  EXPECT_NE(printed_of({"template", at("none"), at("m.json")}).err.find("none"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
