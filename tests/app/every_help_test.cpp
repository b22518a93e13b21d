#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "app/program.h"
#include "base/json.h"

namespace lockstep::app {
namespace {

struct Said {
  int code;
  std::string text;  // of both streams, into a pipe
};

Said say(const std::string& words, const std::string& environment = "") {
  // A --color of another test stays in this process's environment.
  const std::string start = "env -u NO_COLOR -u CLICOLOR_FORCE";
  std::FILE* pipe = popen(fmt::format("{} {} {} {} 2>&1", start, environment, program(), words).c_str(), "r");
  std::string text;
  char piece[4096];
  for (std::size_t count = 0; (count = std::fread(piece, 1, sizeof piece, pipe)) > 0;) text.append(piece, count);
  return {WEXITSTATUS(pclose(pipe)), text};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void add_commands(const Json& sheet, std::vector<Json>& all) {
  for (const Json& command : sheet.at("commands").array()) {
    all.push_back(command);
    add_commands(command, all);
  }
}

const Json& everything() {
  static const Json all = Json::parse(say("help --json").text);
  return all;
}

/// With those behind `bench` and `plan`.
std::vector<Json> commands() {
  std::vector<Json> all;
  add_commands(everything(), all);
  return all;
}

/// What asks for each page of help.
std::vector<std::string> pages() {
  std::vector<std::string> all = {"--help", "help", "help help", "help config", "help config train.backend"};
  for (const Json& command : commands()) all.push_back(command.at("name").string() + " --help");
  for (const Json& group : everything().at("groups").array()) all.push_back("help config " + group.at("name").string());
  return all;
}

TEST(EveryHelp, FitsTheTerminal) {
  EXPECT_GT(pages().size(), 55U);
  for (const std::string& page : pages()) {
    for (const auto& [columns, environment] : {std::pair{80U, "env -u COLUMNS"}, {60U, "COLUMNS=60"}}) {
      const Said said = say(page, environment);
      EXPECT_EQ(said.code, 0) << page;
      for (const std::string& line : lines_of(said.text)) EXPECT_LE(line.size(), columns) << page << ": " << line;
    }
  }
}

TEST(EveryHelp, IsShortOnOneScreen) {
  std::vector<std::string> names = {""};
  for (const Json& command : commands()) {
    const std::string& name = command.at("name").string();
    if (name != "help") names.push_back(name + " ");
  }
  for (const std::string& name : names) {
    const Said said = say(name + "-h", "env -u COLUMNS");
    const std::vector<std::string> lines = lines_of(said.text);
    EXPECT_EQ(said.code, 0) << name;
    EXPECT_LE(lines.size(), 24U) << said.text;
    ASSERT_GT(lines.size(), 3U) << name;
    EXPECT_TRUE(lines.front().starts_with("usage: lockstep " + (name.empty() ? "COMMAND" : name))) << said.text;
    EXPECT_EQ(lines.back(), fmt::format("lockstep {}--help shows all.", name));
    EXPECT_EQ(std::ranges::count(said.text, '('), std::ranges::count(said.text, ')')) << said.text;
    for (const std::string& line : lines) EXPECT_LE(line.size(), 80U) << name << ": " << line;
  }
  EXPECT_EQ(say("").text, say("-h").text);
  EXPECT_EQ(say("help -h").text, say("-h").text);
  EXPECT_EQ(say("help train -h").text, say("train -h").text);
}

TEST(EveryHelp, ShortHelpHasAnOptionAndAnExample) {
  for (const Json& command : commands()) {
    if (command.at("name").string() == "help") continue;  // help -h is that of the program
    const std::string text = say(command.at("name").string() + " -h").text;
    if (!command.at("options").array().empty()) {
      EXPECT_NE(text.find("\noptions:\n  -"), std::string::npos) << text;
    }
    if (!command.at("examples").array().empty()) {
      EXPECT_NE(text.find("\nexample"), std::string::npos) << text;
    }
  }
}

TEST(EveryHelp, SaysWhatACommandIs) {
  for (const Json& command : commands()) {
    EXPECT_LE(command.at("summary").string().size(), 65U) << command.at("name").string();
    for (const Json& example : command.at("examples").array()) {
      const bool command_or_remark =
          example.string().starts_with("# ") || example.string().find("lockstep ") != std::string::npos;
      EXPECT_TRUE(command_or_remark) << example.string();
    }
    for (const char* list : {"options", "arguments"}) {
      for (const Json& word : command.at(list).array()) EXPECT_FALSE(word.at("meaning").string().empty()) << word.dump();
    }
  }
}

TEST(EveryHelp, IsColouredWhereItIsWanted) {
  setenv("NO_COLOR", "1", 1);  // which this process's environment must not bring
  const std::string escape = "\x1b[";
  for (const std::string page : {"--help", "-h", "train --help", "bench --help", "help config"}) {
    const std::string plain = say(page).text;
    EXPECT_EQ(plain.find(escape), std::string::npos) << page;
    EXPECT_EQ(say(page, "CLICOLOR_FORCE=1 NO_COLOR=1").text, plain) << page;
    EXPECT_NE(say(page, "CLICOLOR_FORCE=1").text.find(escape), std::string::npos) << page;
  }
  for (const std::string words : {"--color always --help", "--color=always help", "train --help --color always",
                                  "bench --color always --help", "bench step --color=always -h", "launch --color always -h"}) {
    for (const char* environment : {"", "NO_COLOR=1", "TERM=dumb"})
      EXPECT_NE(say(words, environment).text.find(escape), std::string::npos) << words;
  }
  EXPECT_EQ(say("--color never train --help", "CLICOLOR_FORCE=1").text.find(escape), std::string::npos);
  EXPECT_EQ(say("--color auto train --help").text.find(escape), std::string::npos);
  unsetenv("NO_COLOR");
}

TEST(EveryHelp, ErrorsAreColouredToo) {
  const std::string plain = "lockstep: unknown command 'trian'\n  -> did you mean lockstep train?\n";
  const Said said = say("trian");
  EXPECT_EQ(said.text, plain);
  EXPECT_EQ(said.code, 2);
  EXPECT_EQ(say("--color always trian").text,
            "\x1b[1;31mlockstep:\x1b[0m unknown command 'trian'\n\x1b[36m  -> did you mean lockstep train?\x1b[0m\n");
  EXPECT_EQ(say("train --color always --nothing").text.find("\x1b[1;31mlockstep:\x1b[0m unknown option --nothing"), 0U);
  EXPECT_EQ(say("train --color blue").text,
            "lockstep: --color blue: must be auto, always or never\n  -> --color auto: where a terminal shows them\n");
}

TEST(EveryHelp, ListsAllForPrograms) {
  const Json& all = everything();
  EXPECT_EQ(all.at("name").string(), "lockstep");
  EXPECT_GT(commands().size(), 40U);
  const auto& keys = all.at("settings").array();
  const auto dtype = std::ranges::find_if(keys, [](const Json& key) { return key.at("name").string() == "train.dtype"; });
  ASSERT_NE(dtype, keys.end());
  EXPECT_NE(dtype->at("allowed").dump().find("bf16"), std::string::npos);
  EXPECT_EQ(all.at("exit_statuses").array().size(), 7U);
  EXPECT_FALSE(all.at("bundles").array().empty());
}

}  // namespace
}  // namespace lockstep::app
