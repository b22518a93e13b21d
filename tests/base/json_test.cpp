#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace lockstep {
namespace {

std::string parse_failure(std::string_view text) {
  try {
    Json::parse(text, "tokens.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(JsonValue, KeepsOrderAndTypesThroughTextAndBack) {
  const std::string text = R"({"z":1,"a":[true,null,-7,2.0,0.1,"x\n\"ü"],"m":{},"e":[]})";
  const Json value = Json::parse(text);
  EXPECT_EQ(value.dump(), text);
  EXPECT_EQ(value.at("z").integer(), 1);
  EXPECT_TRUE(value.at("a").array()[0].boolean());
  EXPECT_TRUE(value.at("a").array()[1].is_null());
  EXPECT_TRUE(value.at("a").array()[2].is_int());
  EXPECT_FALSE(value.at("a").array()[3].is_int());
  EXPECT_EQ(value.at("a").array()[5].string(), "x\n\"ü");
  EXPECT_TRUE(value.at("m").is_object());
  EXPECT_EQ(value.find("q"), nullptr);
}

TEST(JsonValue, IndentedDump) {
  Json value;
  value.set("a", 1).set("b", Json::Array{1, 2});
  EXPECT_EQ(value.dump(2), "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ]\n}");
}

TEST(JsonValue, DoublesPrintTheShortestTextThatReadsBackEqual) {
  for (const double x : {0.1, 1.0 / 3, 1e-300, 6.02214076e23, -0.0, 123456789.123456789, 5e-324}) {
    const Json back = Json::parse(Json(x).dump());
    EXPECT_FALSE(back.is_int());
    EXPECT_EQ(back.number(), x) << Json(x).dump();
  }
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(JsonValue, IntegersStayIntegersToTheEndsOfTheirRange) {
  EXPECT_EQ(Json::parse("9223372036854775807").integer(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Json::parse("-9223372036854775808").integer(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Json(std::numeric_limits<std::int64_t>::min()).dump(), "-9223372036854775808");
  const Json beyond = Json::parse("9223372036854775808");
  EXPECT_THROW(beyond.integer(), UserError);
  EXPECT_EQ(beyond.number(), 0x1p63);
}

TEST(JsonValue, InvalidUtf8IsReplacedWhenDumped) {
  EXPECT_EQ(Json("a\xff"
                 "b")
                .dump(),
            "\"a\xEF\xBF\xBD"
            "b\"");
}

TEST(JsonValue, SetReplacesAndMakesAnObjectOfNull) {
  Json value;
  value.set("a", 1).set("b", "two").set("a", 3.5);
  EXPECT_EQ(value.dump(), R"({"a":3.5,"b":"two"})");
  Json number = 1;
  EXPECT_THROW(number.set("a", 1), BrokenRule);
}

TEST(JsonValue, WrongTypesNameWhatWasExpected) {
  const Json value = Json::parse(R"({"n": "12"})");
  EXPECT_THROW(value.at("n").integer(), UserError);
  EXPECT_THROW(value.at("n").number(), UserError);
  EXPECT_THROW(value.at("n").boolean(), UserError);
  EXPECT_THROW(value.at("n").array(), UserError);
  EXPECT_THROW(value.at("n").find("x"), UserError);
  EXPECT_THROW(value.string(), UserError);
  EXPECT_THROW(value.at("missing"), UserError);
  EXPECT_THROW(Json(1.0).integer(), UserError);
  try {
    value.at("n").object();
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("expected an object, found \"12\""), std::string::npos) << error.what();
  }
}

TEST(JsonValue, FaultsNameFileAndPlace) {
  EXPECT_NE(parse_failure("{\n \"a\": tru\n}").find("tokens.json: not valid JSON (line 2, column "), std::string::npos)
      << parse_failure("{\n \"a\": tru\n}");
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nan", "1 2", "\"\xff\"", "1e999", "{\"a\":1,\"a\":2}"}) {
    EXPECT_NE(parse_failure(text), "") << text;
  }
}

TEST(JsonValue, AKeyThatAppearsTwiceIsNamedWithBothPlaces) {
  EXPECT_TRUE(
      parse_failure("{\"a\":1,\"a\":2}").starts_with("tokens.json: the key \"a\" appears twice (line 1, column 2 and column 8)"));
  EXPECT_TRUE(parse_failure("{\n  \"x\": {\"a\\\"\\\\\": [1],\n  \"b\": 2,\n \"a\\\"\\\\\" : 3}}")
                  .find("appears twice (line 2, column 9 and line 4, column 2)") != std::string::npos);
  EXPECT_EQ(parse_failure("[{\"a\":1},{\"a\":{\"a\":2}}]"), "");
}

// The parser passes over it.
TEST(JsonValue, AByteOrderMarkIsNoPartOfIt) { EXPECT_EQ(parse_failure("\xEF\xBB\xBF{\"a\": 1}"), ""); }

TEST(JsonValue, FaultsShowWhatCannotBePrinted) {
  EXPECT_NE(parse_failure("{\"a\": \"caf\xE9\"}").find("\\xe9"), std::string::npos);
  try {
    Json(std::string(56, 'a') + "\u65E5\u672C").integer();
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("a..."), std::string::npos) << error.what();
  }
}

TEST(JsonValue, DepthIsLimited) {
  EXPECT_EQ(parse_failure(std::string(200, '[') + std::string(200, ']')), "");
  EXPECT_NE(parse_failure(std::string(100000, '[')), "");
}

}  // namespace
}  // namespace lockstep
