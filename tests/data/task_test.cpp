// Tasks: the forms of their lines, and the texts that become of them.

#include "data/text/task.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "io/file.h"
#include "support/packed.h"
#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

class TaskFile : public testing::Test {
 protected:
  Task read(const std::string& lines, const std::string& before = "") const {
    io::replace_file(folder_ / "some_task.jsonl", lines);
    return read_task(before + (folder_ / "some_task.jsonl").string());
  }
  std::string told(const std::string& lines) const {
    try {
      read(lines);
    } catch (const UserError& error) {
      return error.problems().front().message;
    }
    return "";
  }
  TempFolder folder_;
};

using Texts = std::vector<std::string>;

// What lm-eval 0.4.13 makes of it (tasks/hellaswag/utils.py).
TEST_F(TaskFile, HellaSwagsLinesBecomeLmEvalsTexts) {
  const Task task = read(
      R"({"ind": 4, "activity_label": "Sharpening knives", "ctx_a": "Two men sit. [title] They [step] work.", "ctx_b": "one OF them", )"
      R"("ctx": "", "split": "val", "label": 1, "endings": ["smiles  and [substeps] ends.", " laughs.", "sits", "goes"], )"
      R"("source_id": "activitynet~v_x"})"
      "\n");
  EXPECT_EQ(task.name, "some_task");
  EXPECT_EQ(task.kind, TaskKind::choices);
  EXPECT_EQ(task.items[0].context, "Sharpening knives: Two men sit.. They work. One of them");
  EXPECT_EQ(task.items[0].continuations, (Texts{" smiles and ends.", " laughs.", " sits", " goes"}));
  EXPECT_EQ(task.items[0].right, 1U);
}

TEST_F(TaskFile, ALineThatSaysTwoThingsIsRefused) {
  EXPECT_NE(told("{\"context\": \"a\", \"question\": \"b\", \"answer\": \"c\"}\n").find("both \"context\" and \"question\""),
            std::string::npos);
  EXPECT_NE(
      told("{\"context\": \"a\", \"choices\": [\"x\", \"y\"], \"gold\": 0, \"label\": 1}\n").find("both \"gold\" and \"label\""),
      std::string::npos);
}

TEST_F(TaskFile, TheFirstLineTellsTheForm) {
  const Task choices = read("{\"question\": \"Is it?\", \"choices\": [\"yes\", \"no\"], \"answer\": \"B\"}\n");
  EXPECT_EQ(choices.items[0].continuations, (Texts{" yes", " no"}));
  EXPECT_EQ(choices.items[0].right, 1U);
  const Task answers = read("\n{\"prompt\": \"2 + 2 =\", \"answer\": \"4\"}\n\n{\"context\": \"a\", \"target\": \"b\"}\n");
  EXPECT_EQ(answers.kind, TaskKind::answers);
  EXPECT_EQ(answers.items.size(), 2U);
  EXPECT_EQ(read("{\"text\": \"all of it\"}\n").kind, TaskKind::documents);
  const Task words = read("{\"text\": \"all of it\"}\n", "lambada:");
  EXPECT_EQ(words.kind, TaskKind::last_word);
  EXPECT_EQ(words.items[0].context, "all of");
  EXPECT_EQ(words.items[0].continuations, Texts{" it"});
}

// As `prepare` reads them.
TEST_F(TaskFile, AListInJsonIsReadARowALine) {
  const std::string list = "[\n  {\"context\": \"a\",\n   \"answer\": \"b\"},\n  {\"context\": \"c\", \"answer\": \"d\"}\n]\n";
  const Task task = read(list);
  EXPECT_EQ(task.kind, TaskKind::answers);
  ASSERT_EQ(task.items.size(), 2U);
  EXPECT_EQ(task.items[1].context, "c");
  EXPECT_EQ(task.name, "some_task");
  io::replace_file(folder_ / "packed.json.gz", gzip(list));
  const Task packed = read_task((folder_ / "packed.json.gz").string());
  EXPECT_EQ(packed.items.size(), 2U);
  EXPECT_EQ(packed.name, "packed");
  EXPECT_NE(told("[{\"text\": \"a\"},\n {\"text\": 1}]").find("some_task.jsonl, row 2: \"text\" is no text"), std::string::npos);
  EXPECT_NE(told("[{\"text\": \"a\"}").find("row 1: the list has no end"), std::string::npos);
  EXPECT_NE(told("PAR1....PAR1").find("is a parquet file"), std::string::npos);
}

TEST_F(TaskFile, BadLinesAreToldWithTheirNumbers) {
  EXPECT_NE(told("{\"text\": \"a\"}\n{\"text\": 1}\n").find("some_task.jsonl, line 2: \"text\" is no text"), std::string::npos);
  EXPECT_NE(told("{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}").find("has to be a number from 0 to 1"),
            std::string::npos);
  EXPECT_NE(told("{\"context\": \"a\", \"choices\": [\"b\"], \"answer\": 0}").find("\"choices\" is no list of two or more"),
            std::string::npos);
  EXPECT_NE(told("{\"context\": \"a\"}").find("\"answer\" is no text"), std::string::npos);
  EXPECT_NE(told("").find("has no line"), std::string::npos);
  EXPECT_THROW(read_task((folder_ / "none.jsonl").string()), UserError);
}

}  // namespace
}  // namespace lockstep::data
