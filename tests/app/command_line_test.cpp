#include "app/cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "app/cli/command_sheet.h"
#include "base/error.h"

namespace lockstep::app {
namespace {

struct Settings {
  bool json = false;
  std::string model, mode = "fast", input, output;
  std::int64_t count = 3;
  double temperature = 0.8;
  std::optional<std::int64_t> seed;
  std::vector<std::string> configs, settings;
  CommandLine line{"try", "Tries things."};

  Settings() {
    line.flag("--json", json, "print JSON");
    line.option("-m,--model", model, "FOLDER", "the model");
    line.option("--count", count, "N", "how many");
    line.option("--temperature", temperature, "T", "how wild");
    line.option("--seed", seed, "N", "the seed");
    line.option("--config", configs, "FILE", "recipes");
    line.choice("--mode", mode, {"fast", "slow"}, "the mode");
    line.positional("INPUT", input, "what to read");
    line.positional("OUTPUT", output, "where to write", false);
    line.overrides(settings, "settings");
    line.note("examples:\n  lockstep try a\n  lockstep try b\nSay more.");
  }
};

std::vector<std::string> problems(const Arguments& arguments) {
  Settings s;
  std::vector<std::string> found;
  try {
    (void)s.line.parse(arguments);
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems()) found.push_back(problem.message + " -> " + problem.remedy);
  }
  return found;
}

TEST(CommandLine, AFlagMayHaveAValue) {
  const auto read = [](const Arguments& arguments) {
    std::optional<std::int64_t> port;
    std::string text;
    CommandLine line("try", "Tries things.");
    line.flag("--watch", port, "PORT", 8001, "a page");
    line.positional("TEXT", text, "what to read", false);
    EXPECT_TRUE(line.parse(arguments));
    return fmt::format("{} {}", port.value_or(-1), text);
  };
  EXPECT_EQ(read({"book"}), "-1 book");
  EXPECT_EQ(read({"--watch", "book"}), "8001 book");
  EXPECT_EQ(read({"--watch=9", "book"}), "9 book");
  EXPECT_EQ(read({"--watch", "9"}), "8001 9") << "a value stands behind a \"=\"";
  EXPECT_THROW(read({"--watch=book"}), UserError);
  EXPECT_THROW(read({"--watch=1", "--watch=2"}), UserError);
}

TEST(CommandLine, ReadsEveryKind) {
  Settings s;
  EXPECT_TRUE(s.line.parse({"--config", "a.toml", "in", "--json", "-m", "runs/x", "train.seed=-1", "--count=7", "--temperature",
                            "1e-2", "--config=b.toml", "--seed", "-5", "data=shakespeare", "--mode", "slow", "-"}));
  EXPECT_TRUE(s.json);
  EXPECT_EQ(s.model, "runs/x");
  EXPECT_EQ(s.count, 7);
  EXPECT_EQ(s.temperature, 0.01);
  EXPECT_EQ(s.seed, -5);
  EXPECT_EQ(s.mode, "slow");
  EXPECT_EQ(s.input, "in");
  EXPECT_EQ(s.output, "-");
  EXPECT_EQ(s.configs, (std::vector<std::string>{"a.toml", "b.toml"}));
  EXPECT_EQ(s.settings, (std::vector<std::string>{"train.seed=-1", "data=shakespeare"}));
}

TEST(CommandLine, AbsentOptionsKeepTheirDefaults) {
  Settings s;
  EXPECT_TRUE(s.line.parse({"in"}));
  EXPECT_FALSE(s.json);
  EXPECT_EQ(s.count, 3);
  EXPECT_EQ(s.mode, "fast");
  EXPECT_FALSE(s.seed.has_value());
  EXPECT_EQ(s.output, "");
}

TEST(CommandLine, HelpHasEverythingAndParseSaysSo) {
  Settings s;
  testing::internal::CaptureStdout();
  EXPECT_FALSE(s.line.parse({"--nonsense", "--help"}));
  const std::string help = testing::internal::GetCapturedStdout();
  for (const char* part : {"usage: lockstep try INPUT [OUTPUT] [options]", "Tries things.", "-m,--model FOLDER",
                           "how many (default 3)", "recipes (may be repeated)", "--mode fast|slow", "Say more.\n",
                           "\nexamples:\n  lockstep try a\n  lockstep try b\n", "-h,--help"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << help;
  }
}

TEST(CommandLine, ShortHelpHasTheDailyOptions) {
  Settings s;
  s.line.daily({"--model", "--count"});
  testing::internal::CaptureStdout();
  EXPECT_FALSE(s.line.parse({"-h"}));
  const std::string help = testing::internal::GetCapturedStdout();
  EXPECT_NE(help.find("\noptions:\n  -m,--model FOLDER  the model\n  --count N          how many (default 3)\n\n"),
            std::string::npos)
      << help;
  EXPECT_NE(help.find("\nlockstep try --help shows all.\n"), std::string::npos) << help;
}

TEST(CommandLine, TellsWhatItTakes) {
  Settings s;
  CommandSheet sheet;
  Arguments none;
  none.described = &sheet;
  EXPECT_FALSE(s.line.parse(none));
  EXPECT_EQ(sheet.name, "try");
  ASSERT_EQ(sheet.options.size(), 7U);
  EXPECT_EQ(sheet.options[1].long_name(), "--model");
  EXPECT_EQ(sheet.options[6].allowed, (std::vector<std::string>{"fast", "slow"}));
  EXPECT_EQ(sheet.arguments[0].name, "INPUT");
  EXPECT_TRUE(sheet.takes_settings);
  EXPECT_EQ(sheet.examples.size(), 2U);
  EXPECT_EQ(sheet.notes.at(0).text, "Say more.");
}

// What an unset variable of the shell leaves stands for nothing that may be missing.
TEST(CommandLine, AnEmptyWordIsNoWordThatWasLeftOut) {
  EXPECT_EQ(
      problems({"in", ""}),
      (std::vector<std::string>{"OUTPUT is an empty word -> leave it out, or look whether a variable of the shell is set"}));
  EXPECT_EQ(
      problems({"in", "--model", ""}),
      (std::vector<std::string>{"--model is an empty word -> leave it out, or look whether a variable of the shell is set"}));
  EXPECT_EQ(problems({"", "out"}),
            (std::vector<std::string>{"INPUT is an empty word -> look whether a variable of the shell is set"}));
  EXPECT_EQ(problems({"in", "out", "", "--mode="}).size(), 1U);
  EXPECT_EQ(problems({"in", "out", "", "--mode", "", "--count", ""}),
            (std::vector<std::string>{
                "--count is an empty word -> leave it out, or look whether a variable of the shell is set",
                "--mode is an empty word -> leave it out, or look whether a variable of the shell is set",
                "the last word is an empty word -> leave it out, or look whether a variable of the shell is set"}));
  CommandLine line("try", "Tries things.");
  std::string model, prompt = "before";
  line.positional("MODEL", model, "what is read", false, {"--model"});
  line.option("--prompt", prompt, "TEXT", "what is said");
  EXPECT_THROW((void)line.parse({"--model", ""}), UserError);
  EXPECT_TRUE(line.parse({"--prompt", ""})) << "a text may be empty";
  EXPECT_EQ(prompt, "");
}

// A shell knows "~" at the start of a word alone.
TEST(CommandLine, AFilesNameBehindASignMayBeginWithTheUsersFolder) {
  CommandLine line("try", "Tries things.");
  std::string file, model, prompt;
  line.positional("MODEL", model, "what is read", false, {"--model"});
  line.option("--out", file, "FILE", "where it goes");
  line.option("--prompt", prompt, "TEXT", "what is said");
  ASSERT_TRUE(line.parse({"--out=~/a/b.txt", "--model=~", "--prompt=~/a"}));
  const std::string home = std::getenv("HOME");
  EXPECT_EQ(file, home + "/a/b.txt");
  EXPECT_EQ(model, home);
  EXPECT_EQ(prompt, "~/a");
}

TEST(CommandLine, AWordWithASlashBeforeItsSignIsAPath) {
  CommandLine line("try", "Tries things.");
  std::vector<std::string> settings, files;
  std::string input;
  line.positional("INPUT", input, "what is read");
  line.overrides(settings, "settings");
  line.foreign({"max_iters"}, ".py", files, "--name=value, FILE.py", "their settings");
  ASSERT_TRUE(line.parse({"./a=b.txt", "data.dir=/x", "/tmp/lr=1.py"}));
  EXPECT_EQ(input, "./a=b.txt");
  EXPECT_EQ(settings, (std::vector<std::string>{"data.dir=/x"}));
  EXPECT_EQ(files, (std::vector<std::string>{"/tmp/lr=1.py"}));
}

TEST(CommandLine, AllProblemsAtOnce) {
  EXPECT_EQ(problems({"--count", "many", "--temperature", "hot", "--seed", "1.5", "--mode", "medium"}),
            (std::vector<std::string>{"--count: 'many' is not an integer -> see lockstep try --help",
                                      "--temperature: 'hot' is not a number -> see lockstep try --help",
                                      "--seed: '1.5' is not an integer -> see lockstep try --help",
                                      "--mode: 'medium' is not one of fast|slow -> see lockstep try --help",
                                      "INPUT is missing -> usage: lockstep try INPUT [OUTPUT] [options] [group=option...] "
                                      "[group.key=value...]"}));
}

// As they were typed, whatever a conversion would make of them.
TEST(CommandLine, WhatIsNoNumberHereIsNamedAsItWasTyped) {
  for (const char* text : {"+5", "0x10", " 5", "5 ", "5x", "1e3", "--", "nan"}) {
    const std::vector<std::string> found = problems({"in", fmt::format("--count={}", text)});
    EXPECT_EQ(found, std::vector<std::string>{fmt::format("--count: '{}' is not an integer -> see lockstep try --help", text)});
  }
  for (const char* text : {"99999999999", "2147483648", "-2147483648", "99999999999999999999"}) {
    for (const char* option : {"--count", "--seed"}) {
      EXPECT_EQ(problems({"in", fmt::format("{}={}", option, text)}),
                std::vector<std::string>{fmt::format("{}: '{}' is not an integer of at {}2147483647 -> see lockstep try --help",
                                                     option, text, text[0] == '-' ? "least -" : "most ")});
    }
  }
  for (const char* text : {"nan", "inf", "-inf", "1e999"}) {
    EXPECT_EQ(problems({"in", fmt::format("--temperature={}", text)}),
              std::vector<std::string>{fmt::format(
                  "--temperature: '{}' is not a number, or is beyond what a number may be -> see lockstep try --help", text)});
  }
  for (const char* text : {"+5", "0x10", " 5", "5x"}) {
    EXPECT_EQ(problems({"in", fmt::format("--temperature={}", text)}),
              std::vector<std::string>{fmt::format("--temperature: '{}' is not a number -> see lockstep try --help", text)});
  }
}

TEST(CommandLine, WhatTakesOneValueIsGivenOnce) {
  EXPECT_EQ(problems({"in", "-m", "a", "--model", "b", "--mode=slow", "--mode=slow"}),
            (std::vector<std::string>{"--model is given 2 times: a, b -> give it once",
                                      "--mode is given 2 times: slow, slow -> give it once"}));
  EXPECT_EQ(problems({"in", "--json", "--json", "--config", "a", "--config", "b"}), std::vector<std::string>{});
}

// `generate MODEL` and `generate --model MODEL` are the same.
TEST(CommandLine, APositionalMayBeGivenByItsName) {
  const auto read = [](const Arguments& arguments) {
    std::string model, data;
    CommandLine line("try", "Tries things.");
    line.positional("MODEL", model, "what is read", true, {"--model"});
    line.positional("DATA", data, "with which text", false, {"--data", "--tokens"});
    try {
      EXPECT_TRUE(line.parse(arguments));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return fmt::format("{} {}", model, data);
  };
  for (const Arguments& words :
       {Arguments{"a", "b"}, {"--model", "a", "b"}, {"b", "--model=a"}, {"a", "--tokens", "b"}, {"--data", "b", "--model", "a"}})
    EXPECT_EQ(read(words), "a b") << fmt::format("{}", fmt::join(words, " "));
  EXPECT_EQ(read({"--model", "a"}), "a ");
  EXPECT_EQ(read({"--data", "b"}), "MODEL is missing\n  -> usage: lockstep try MODEL [DATA] [options]");
  EXPECT_EQ(read({"a", "b", "--model", "c"}), "MODEL is given twice: b and --model c\n  -> give it once");
  EXPECT_EQ(read({"a", "--data", "b", "--tokens", "c"}), "DATA is given twice: --data b and --tokens c\n  -> give it once");
  EXPECT_EQ(read({"a", "--modle", "c"}), "unknown option --modle\n  -> did you mean --model?");
}

TEST(CommandLine, UnknownOptionsNameTheNearest) {
  EXPECT_EQ(problems({"in", "--moddel", "x"}), (std::vector<std::string>{"unknown option --moddel -> did you mean --model?"}));
  EXPECT_EQ(problems({"in", "--moddel=x"}), (std::vector<std::string>{"unknown option --moddel=x -> did you mean --model?"}));
  EXPECT_EQ(problems({"in", "--zzzzzzzzzzz"}),
            (std::vector<std::string>{"unknown option --zzzzzzzzzzz -> see lockstep try --help"}));
}

TEST(CommandLine, WordsOfAnotherGrammarAreCollectedInOrder) {
  CommandLine line("try", "Tries things.");
  std::vector<std::string> settings, files;
  std::int64_t count = 3;
  line.option("--count", count, "N", "how many");
  line.overrides(settings, "settings");
  line.foreign({"max_iters", "dropout"}, ".py", files, "--name=value, FILE.py", "their settings");
  ASSERT_TRUE(line.parse({"--max-iters=3", "a.b=c.py", "x.py", "--count=4", "--dropout=0.1=2"}));
  EXPECT_EQ(files, (std::vector<std::string>{"x.py"}));
  EXPECT_EQ(settings, (std::vector<std::string>{"--max_iters=3", "a.b=c.py", "--dropout=0.1=2"}));
  EXPECT_EQ(count, 4);
  const auto message = [&](const Arguments& arguments) -> std::string {
    try {
      (void)line.parse(arguments);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({"--max-iters", "3", "--max_iters", "4"}), "no error");
  EXPECT_EQ(message({"--max_iters"}), "--max_iters has no value\n  -> write it in one word: --max_iters=VALUE");
  EXPECT_EQ(message({"--max_itrs=3"}), "unknown option --max_itrs=3\n  -> did you mean --max_iters?");
  EXPECT_EQ(message({"-x.py"}), "unknown option -x.py\n  -> see lockstep try --help");
}

TEST(CommandLine, StrayWordsAndMissingValues) {
  EXPECT_EQ(problems({"in", "out", "third"}).at(0),
            "'third' has no place in this command -> settings are written group.key=value; see lockstep try --help");
  EXPECT_EQ(problems({"in", "--model"}), (std::vector<std::string>{"--model has no value -> see lockstep try --help"}));
  EXPECT_EQ(problems({"in", "--model=", "x"}), (std::vector<std::string>{"--model has no value -> see lockstep try --help"}));
}

}  // namespace
}  // namespace lockstep::app
