#include "base/text/answer.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Table known() {
  Table table({{"name", "what"}, {"seconds", "ms", "{:.1f}", 1e3}, {"bytes", "", ""}, {"", "meaning"}});
  table.row({"a", 0.0125, 7, "a \"long\" one"});
  table.row({"bcd", nullptr, 8});
  table.row({"ü", {1, "all, of it"}, 9, ""});
  return table;
}

TEST(Table, AlignsWordsToTheLeftAndNumbersToTheRight) {
  EXPECT_EQ(known().text(),
            "what          ms  meaning\n"
            "a           12.5  a \"long\" one\n"
            "bcd            -\n"
            "ü     all, of it\n");
  Table plain({{"", ""}, {"", ""}});
  plain.row({"a", 1});
  plain.row({"b", 22});
  EXPECT_EQ(plain.text(), "a   1\nb  22\n");
  EXPECT_EQ(Table({Column{"bytes", "", ""}}).text(), "");
}

TEST(Table, RowsAreObjectsAndLinesOfCsv) {
  EXPECT_EQ(
      Json(known().rows()).dump(),
      R"([{"name":"a","seconds":0.0125,"bytes":7},{"name":"bcd","seconds":null,"bytes":8},{"name":"ü","seconds":1,"bytes":9}])");
  EXPECT_EQ(known().csv(), "name,seconds,bytes\na,0.0125,7\nbcd,,8\nü,1,9\n");
}

TEST(Table, ACellOfCsvHasNoJson) {
  Table table({{"name", ""}, {"best", ""}, {"all", ""}});
  table.row({"a", Json(), Json::Array{1, 2}});
  table.row({"b", Json::Object{{"seconds", 0.5}, {"words", Json::Array{"x=1", "y=2"}}}, Json()});
  EXPECT_EQ(table.csv(), "name,best.seconds,best.words,all\na,,,1 2\nb,0.5,x=1 y=2,\n");
}

TEST(Answer, SaysTheSameAsTextJsonAndCsv) {
  Answer answer;
  answer.say("three things\n");
  answer.fact("ranks", 2);
  Table table({Column{"name", "what"}});
  table.row({"a, \"b\""});
  EXPECT_EQ(answer.csv(), "ranks\n2\n");
  answer.table("rows", table);
  EXPECT_EQ(answer.text(), "three things\nwhat\na, \"b\"\n");
  EXPECT_EQ(answer.json(), "{\"ranks\":2,\"rows\":[{\"name\":\"a, \\\"b\\\"\"}]}\n");
  EXPECT_EQ(answer.csv(), "name\n\"a, \"\"b\"\"\"\n");
  EXPECT_EQ(answer.at("ranks").integer(), 2);
}

TEST(Answer, ATableTurnsAndKeysAreNoText) {
  Table table = Table::of_text({"run", "loss"});
  EXPECT_TRUE(table.empty());
  table.row({"a", {1.5, "1.5000"}});
  table.row({"b", nullptr});
  EXPECT_EQ(table.lines(), (std::vector<std::vector<std::string>>{{"run", "loss"}, {"a", "1.5000"}, {"b", "-"}}));
  EXPECT_EQ(table.turned().text(), "run   a       b\nloss  1.5000  -\n");
  Table keys = Table::of_keys({"n", "word"});
  keys.row({1, "x"});
  EXPECT_EQ(keys.text(), "");
  EXPECT_EQ(keys.csv(), "n,word\n1,x\n");
}

TEST(Answer, LinesOfJsonStandByThemselves) {
  Answer answer;
  Table table({Column{"n"}});
  table.row({1});
  table.row({2});
  answer.lines(table);
  EXPECT_EQ(answer.json(), "{\"n\":1}\n{\"n\":2}\n");
}

}  // namespace
}  // namespace lockstep
