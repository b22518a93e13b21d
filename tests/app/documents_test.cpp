// Documents in a sample that do not see each other, as users ask for them.

#include <gtest/gtest.h>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class DocumentsCommand : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    std::string lines;
    for (int i = 0; i < 300; ++i) lines += "{\"text\": \"fox " + std::to_string(i * i % 97) + " jumps\"}\n";
    io::replace_file(folder_ / "lines.jsonl", lines);
    const Outcome prepared =
        lockstep({"prepare", folder_ / "lines.jsonl", "--tokenizer", "bpe:280", "--out", folder_ / "documents"});
    ASSERT_EQ(prepared.code, 0) << prepared.err;
  }
  std::vector<std::string> on(const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = words(run, {"data.dir=" + (folder_ / "documents").string(), "data.documents=true"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(DocumentsCommand, TextWithoutAnEndOfDocumentsIsRefused) {
  const Outcome outcome = lockstep(words("bad", {"data.documents=true"}));
  EXPECT_EQ(outcome.code, 2);
  for (const char* text :
       {"data.documents = true: the vocabulary of", "has no token that ends a document", "data.documents=false"})
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
}

TEST_F(DocumentsCommand, RanksThatDivideSequencesFollowOneRank) {
  const Outcome alone = lockstep(on("one"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::vector<double> one = losses("one");
  ASSERT_EQ(lockstep(words("whole", {"data.dir=" + (folder_ / "documents").string()})).code, 0);
  EXPECT_NE(losses("whole"), one) << "documents that see each other";
  for (const std::string method : {"allgather", "ulysses", "ring"}) {
    const Outcome outcome = lockstep(on(method, {"--ranks", "2", "parallel.cp=2", "parallel.context=" + method}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<double> two = losses(method);
    ASSERT_EQ(two.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-5 * one[i]) << i;
  }
}

TEST_F(DocumentsCommand, ARunThatGoesOnKeepsThem) {
  ASSERT_EQ(lockstep(on("run")).code, 0);
  const Outcome other = lockstep(on("run", {"train.init_from=resume", "data.documents=false", "train.max_iters=10"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("data.documents"), std::string::npos) << other.err;
  EXPECT_EQ(lockstep(on("run", {"train.init_from=resume", "train.max_iters=10"})).code, 0);
}

TEST_F(DocumentsCommand, ADryRunNeedsNoText) {
  const Outcome outcome = lockstep(on("dry", {"--dry-run"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"documents\": true"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace lockstep::app
