// Conversations as published templates write them.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/chats.h"
#include "data/tokenizer_choice.h"
#include "support/test_data.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

// Templates as they are published: the text's own ids, and what is taught.
TEST(PublishedChats, AreAsTransformersHasThem) {
  const auto templates = test_data("chat_templates");
  if (!std::filesystem::exists(templates)) GTEST_SKIP() << templates.string() << " is not here";
  const Json all = Json::parse(io::read_file(templates / "expected.json"));
  Chats chats;
  write_tokenizer(chats, {"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"},
                  R"({"bos_token": "<s>", "eos_token": "</s>"})");
  int seen = 0;
  for (const auto& [file, rows] : all.object()) {
    chats.options.chats.chat_template = (templates / file).string();
    for (const Json& row : rows.array()) {
      const Json* parts = row.find("taught");
      if (parts == nullptr || row.at("add_generation_prompt").boolean()) continue;
      SCOPED_TRACE(file + ": " + row.at("conversation").string());
      const std::string line = Json(Json::Object{{"messages", row.at("messages")}}).dump() + "\n";
      std::string taught;
      for (const Json& part : parts->array()) taught += part.string();
      if (taught.empty()) {
        EXPECT_TRUE(contains(chats.refused(line + line), "nothing is taught"));
        continue;
      }
      chats.prepare(line + line);
      const Chats::Part part = chats.part("train");
      const auto tokenizer = load_tokenizer(tokenizer_choice(chats.options.tokenizer));
      const std::string& text = row.at("text").string();
      std::vector<std::int32_t> ids(tokenizer->room(text.size()));
      std::string unknown;
      ids.resize(tokenizer->encode(text, ids, unknown));
      if (ids.back() != document_end(*tokenizer)) ids.push_back(document_end(*tokenizer).value());
      EXPECT_EQ(part.ids, ids);
      EXPECT_EQ(part.taught, taught);
      ++seen;
    }
  }
  EXPECT_GT(seen, 30);
}

}  // namespace
}  // namespace lockstep::data
