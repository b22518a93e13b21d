#include "data/text/documents.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "data/support.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

std::optional<Document> document_of(const std::string& line) {
  const std::optional<Json> object = parse_line(line);
  return object ? std::optional(plain_document(*object)) : std::nullopt;
}
DocumentMaker plain_documents() {
  return [](const Json& object, ChatCounts&, std::vector<Document>& documents) { add(documents, plain_document(object)); };
}

TEST(Documents, ALineIsATextOrAPromptWithItsCompletion) {
  const Document text = document_of(R"({"id": 7, "text": "a\nb \u00e9 \ud83d\ude00", "meta": {"x": [1]}})").value();
  EXPECT_EQ(text.prompt, "");
  EXPECT_EQ(text.text, "a\nb \xC3\xA9 \xF0\x9F\x98\x80");
  const Document pair = document_of(" {\"completion\": \"yes\", \"prompt\": \"no?\"}\r").value();
  EXPECT_EQ(pair.prompt, "no?");
  EXPECT_EQ(pair.text, "yes");
  EXPECT_EQ(document_of(R"({"prompt": "a", "completion": "b", "system": "", "system_prompt": null})")->text, "b");
  EXPECT_EQ(document_of(R"({"text": "a", "system": "a name"})")->text, "a");
  for (const std::string blank : {"", "  ", "\t\r"}) EXPECT_FALSE(document_of(blank).has_value());
}

TEST(Documents, OtherLinesAreRefused) {
  const auto refused = [](const std::string& line) { return user_error([&] { document_of(line); }); };
  EXPECT_TRUE(contains(refused("{\"text\": \"a\""), "not valid JSON (column 13)")) << refused("{\"text\": \"a\"");
  EXPECT_TRUE(contains(refused("{\"text\": \"caf\xE9\"}"), "not valid JSON"));
  EXPECT_TRUE(contains(refused("{\"text\": \"a\"} {\"text\": \"b\"}"), "not valid JSON"));
  EXPECT_TRUE(contains(refused("[\"text\"]"), "this is an array, not an object"));
  EXPECT_TRUE(contains(refused("\"text\""), "this is a string"));
  EXPECT_TRUE(contains(refused("3"), "this is a number"));
  EXPECT_TRUE(contains(refused("{}"), "it has no \"text\""));
  EXPECT_TRUE(contains(refused(R"({"prompt": "a", "completion": "b", "label": true})"), "its \"label\" says whether"));
  EXPECT_TRUE(contains(refused(R"({"prompt": "a", "completion": "b", "system": "c"})"), "its \"system\" would not be read"));
  EXPECT_TRUE(contains(refused(R"({"prompt": "a", "completion": "b", "system_prompt": "c"})"), "its \"system_prompt\" would"));
  EXPECT_TRUE(contains(refused("{\"Text\": \"a\"}"), "it has no \"text\""));
  EXPECT_TRUE(contains(refused("{\"text\": null}"), "it has no \"text\""));
  EXPECT_TRUE(contains(refused("{\"text\": {}}"), "\"text\" is an object, not a string"));
  EXPECT_TRUE(contains(refused("{\"text\": \"a\", \"text\": \"b\"}"), "appears twice"));
  EXPECT_TRUE(contains(refused("{\"text\": \"a\", \"prompt\": \"b\"}"), "which is meant?"));
  EXPECT_TRUE(contains(refused("{\"prompt\": \"b\"}"), "\"prompt\" without a \"completion\""));
  EXPECT_TRUE(contains(refused("{\"completion\": \"b\"}"), "\"completion\" without a \"prompt\""));
  EXPECT_TRUE(contains(refused("{\"prompt\": \"b\", \"completion\": true}"), "\"completion\" is true or false"));
}

TEST(Documents, APieceHasItsLinesCounted) {
  DocumentLines lines;
  std::string piece =
      "{\"text\": \"a\"}\n\n[]\n{\"text\": \"\"}\n{\"prompt\": \"p\", \"completion\": \"\"}\r\nbad\n{\"text\": \"b\"}";
  read_documents(piece, plain_documents(), lines);
  EXPECT_EQ(lines.lines, 7);
  ASSERT_EQ(lines.documents.size(), 3U);  // without the empty one
  EXPECT_EQ(lines.documents[1].prompt, "p");
  EXPECT_EQ(lines.documents[2].text, "b");
  ASSERT_EQ(lines.bad.size(), 2U);
  EXPECT_EQ(lines.bad[0].line, 2);
  EXPECT_EQ(lines.bad[1].line, 5);
  piece.clear();
  for (int i = 0; i < 100; ++i) piece += "bad\n";
  read_documents(piece, plain_documents(), lines);
  EXPECT_EQ(lines.lines, 100);
  EXPECT_EQ(lines.bad.size(), most_bad_lines);
  EXPECT_TRUE(lines.documents.empty());
}

}  // namespace
}  // namespace lockstep::data
