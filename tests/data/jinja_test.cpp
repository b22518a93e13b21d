// Templates: what Jinja2 makes of them, what is refused and where, and that none goes on for ever.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "data/chat/jinja/template.h"
#include "io/file.h"

namespace lockstep::data::jinja {
namespace {

Settings settings() {
  Settings made;
  made.now.tm_year = 126, made.now.tm_mon = 10, made.now.tm_mday = 25, made.now.tm_wday = 3, made.now.tm_yday = 328;
  return made;
}

std::string rendered(std::string_view source, const Json::Object& variables = {}, const Settings& how = settings()) {
  return Template(source, "t").render(variables, how).text;
}

/// What is said of a template that is refused, when it is read or rendered.
std::string refusal(std::string_view source, const Json::Object& variables = {}, const Settings& how = settings()) {
  try {
    return "rendered: " + rendered(source, variables, how);
  } catch (const UserError& error) {
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.problems().front().message;
  }
}

// tests/python/template_test.py compares the same cases with Jinja2 itself.
TEST(Jinja, WritesWhatJinja2Writes) {
  const auto file = std::filesystem::path(__FILE__).parent_path() / "template_cases.json";
  const Json kept = Json::parse(io::read_file(file), file.string());
  Json::Object variables = kept.at("variables").object();
  variables.insert(variables.end(), {{"messages", Json::Array{}},
                                     {"tools", nullptr},
                                     {"documents", nullptr},
                                     {"bos_token", "<s>"},
                                     {"eos_token", "</s>"},
                                     {"add_generation_prompt", false}});
  for (const Json& one : kept.at("cases").array()) {
    const std::string& source = one.at("template").string();
    SCOPED_TRACE(source);
    try {
      const Rendered made = Template(source, "t").render(variables, settings());
      ASSERT_NE(one.find("text"), nullptr) << "Jinja2 refuses it";
      EXPECT_EQ(made.text, one.at("text").string());
      const Json* taught = one.find("taught");
      ASSERT_EQ(made.generated.size(), taught != nullptr ? taught->array().size() : 0);
      for (std::size_t i = 0; i < made.generated.size(); ++i) EXPECT_EQ(made.generated[i].text, taught->array()[i].string());
    } catch (const UserError& error) {
      EXPECT_EQ(one.find("text"), nullptr) << error.what();
    }
  }
}

TEST(Jinja, SaysWhatIsNotKnownByNameAndPlace) {
  EXPECT_EQ(refusal("a\n  {{ 1 | nosuch }}"), "t, line 2, column 10: the filter 'nosuch' is not known");
  EXPECT_EQ(refusal("{{ y is nosuch }}"), "t, line 1, column 9: the test 'nosuch' is not known");
  EXPECT_EQ(refusal("é{% include 'x' %}"), "t, line 1, column 5: the tag 'include' is not known");
  EXPECT_EQ(refusal("{% for x in y recursive %}{% endfor %}"), "t, line 1, column 15: loops that are 'recursive' are not known");
  EXPECT_EQ(refusal("{{ 0x1F }}"), "t, line 1, column 4: numbers with another base than ten are not known");
  EXPECT_EQ(refusal("{{ '\\N{DASH}' }}"), "t, line 1, column 5: characters by their names (\\N{...}) are not known");
  EXPECT_EQ(refusal("{{ 9223372036854775807 + 1 }}"), "t, line 1, column 24: an integer beyond 64 bits");
  EXPECT_EQ(refusal("{{ 'a'.encode() }}"),
            "t, line 1, column 14: a template may not use 'encode' of a str, which would change it or is not known");
  EXPECT_EQ(refusal("{{ [1] | map('int') }}"), "t, line 1, column 1: a generator is no text");
  EXPECT_EQ(refusal("{{ namespace(_a=1) }}"), "t, line 1, column 13: '_a': names of attributes do not begin with _");
}

TEST(Jinja, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(refusal("{% if x %}\n{{ x }}"), "t, line 1, column 4: the block 'if' has no 'endif'");
  EXPECT_EQ(refusal("{{ 1 + }}"), "t, line 1, column 8: an expression is expected, found '}}'");
  EXPECT_EQ(refusal("{% set x 1 %}"), "t, line 1, column 10: '%}' is expected, found '1'");
  EXPECT_EQ(refusal("{# x"), "t, line 1, column 1: the comment has no end");
  EXPECT_EQ(refusal("{{ 'x"), "t, line 1, column 4: the string has no end");
  EXPECT_EQ(refusal("{{ ) }}"), "t, line 1, column 4: ')' closes nothing");
  EXPECT_EQ(refusal("{{ a.b.c }}"), "t, line 1, column 5: 'a' is undefined");
  EXPECT_EQ(refusal("{{ {}.b.c }}"), "t, line 1, column 8: a dict has no attribute 'b'");
  EXPECT_EQ(refusal("{{ 'a' + 1 }}"), "t, line 1, column 8: '+' does not go with a str and an int");
  EXPECT_EQ(refusal("{% for a, b in [[1]] %}{% endfor %}"), "t, line 1, column 4: 2 values are expected to unpack, found 1");
  EXPECT_EQ(refusal("a\xFF"), "t, line 1, column 2: this is not valid UTF-8");
  EXPECT_EQ(refusal("{{ x.append(1) }}", {{"x", Json::Array{}}}),
            "t, line 1, column 12: a template may not use 'append' of a list, which would change it or is not known");
}

TEST(Jinja, RefusesNumbersWhoseDigitsJsonLost) {
  const auto given = [](const char* number) { return Json::Object{{"x", Json::parse(fmt::format(R"({{"id": {}}})", number))}}; };
  EXPECT_EQ(rendered("{{ x.id }}", given("-9223372036854775808")), "-9223372036854775808");
  EXPECT_EQ(rendered("{{ x.id }}", given("9223372036854775807")), "9223372036854775807");
  EXPECT_EQ(rendered("{{ x.id }}", given("1e22")), "1e+22");
  EXPECT_EQ(rendered("{{ x | tojson }}", given("1.7976931348623157e308")), R"({"id": 1.7976931348623157e+308})");
  for (const char* number : {"9223372036854775808", "123456789012345678901234567890", "-9223372036854777856"})
    EXPECT_NE(refusal("{{ x.id }}", given(number)).find("more than 64 bits"), std::string::npos) << number;
}

TEST(Jinja, RaisesTheTemplatesOwnMessage) {
  EXPECT_EQ(refusal("\n{{ raise_exception('Roles must alternate: ' ~ 3) }}"),
            "t, line 2, column 19: the template refuses the messages: Roles must alternate: 3");
}

TEST(Jinja, StopsWhatGoesOnForEver) {
  Settings how = settings();
  how.limits = {.work = 1 << 20, .text = 1 << 16, .depth = 1200};
  const auto said = [&](std::string_view source) { return refusal(source, {}, how); };
  EXPECT_NE(said("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}").find("takes too long"),
            std::string::npos);
  EXPECT_NE(said("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("goes too deep"), std::string::npos);
  EXPECT_NE(said("{{ 'a' * 1000000000000 }}").find("a text becomes too long"), std::string::npos);
  EXPECT_NE(said("{% for a in range(70000) %}b{% endfor %}").find("a text becomes too long"), std::string::npos);
  const std::string nested = "{% set n = namespace(x=1) %}{% for a in range(400) %}{% set n.x = ";
  EXPECT_NE(said(nested + "[n.x] %}{% endfor %}").find("lists and dicts inside one another"), std::string::npos);
  EXPECT_NE(said(nested + "[n.x, n.x] %}{% endfor %}").find("becomes too long"), std::string::npos);
  EXPECT_NE(said("{{ " + std::string(5000, '(') + std::string(5000, ')') + " }}").find("inside one another"), std::string::npos);
  std::string sum = "{{ 1", blocks;
  for (int i = 0; i < 300; ++i) sum += " + 1", blocks += "{% if x %}";
  EXPECT_NE(said(sum + " }}").find("inside one another"), std::string::npos);
  EXPECT_NE(said(blocks).find("inside one another"), std::string::npos);
}

TEST(Jinja, AsksALoopThatHasEnded) {
  EXPECT_EQ(rendered("{% set n = namespace() %}{% for x in [1, 2] if x %}{% set n.l = loop %}{% break %}{% endfor %}{{ n.l.last "
                     "}}{{ n.l.length }}"),
            "True1");
}

TEST(Jinja, TellsWhereGeneratedTextStands) {
  const Template made("ü{% generation %}a{% endgeneration %}{% set x %}{% generation %}b{% endgeneration %}{% endset %}{{ x }}",
                      "t");
  EXPECT_TRUE(made.marks_generation());
  const Rendered text = made.render({}, settings());
  ASSERT_EQ(text.generated.size(), 2);
  EXPECT_EQ(text.generated[0].begin, 2);
  EXPECT_EQ(text.generated[1].begin, std::string::npos) << "a variable took it first";
  EXPECT_FALSE(Template("{% raw %}{% generation %}{% endraw %}", "t").marks_generation());
}

}  // namespace
}  // namespace lockstep::data::jinja
