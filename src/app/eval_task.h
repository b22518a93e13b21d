#pragma once

// A model judged by tasks: what it finds likelier, foretells or answers, with the names and the arithmetic of lm-eval.

#include <optional>
#include <string>
#include <vector>

#include "app/loaded_model.h"
#include "app/start/session.h"
#include "base/log.h"
#include "base/text/answer.h"
#include "data/text/task.h"
#include "train/sample.h"
#include "train/texts/likelihood.h"

namespace lockstep::app {

struct TaskScore {
  std::string metric;
  double value = 0;
  std::optional<double> error;  ///< of the mean; none: a total has none
};

/// What judges: a model for reading on the ranks of `groups`. All outlive the judge.
struct JudgeParts {
  train::ModelShare model;
  const data::Tokenizer& tokenizer;
  const parallel::Groups& groups;
  Runtime& runtime;
  Log& log;
  bool divides = true;      ///< the model's copies divide the items; false: each copy reads all, as they read weights together
  bool shows = false;       ///< tells how far it is
  std::int64_t stride = 0;  ///< of windows in documents; 0: the model's context
};

class TaskJudge {
 public:
  /// Takes memory for the model's longest context.
  explicit TaskJudge(const JudgeParts& parts);
  /// The scores, the same on all ranks, for any layout that keeps bits. Throws UserError for what is not finite. Collective.
  std::vector<TaskScore> judge(const data::Task& task);
  /// To be called when the weights have changed.
  void forget() { reader_.forget(); }

 private:
  struct Judged {
    train::Likelihood likelihood;
    std::size_t tokens;
  };
  void judge(const data::Task& task, const data::TaskItem& item, std::span<double> to);
  Judged continuation(const std::string& context, const std::string& text);
  std::vector<std::int32_t> beginning() const;
  void judge_document(const std::string& text, std::span<double> to);
  bool answers_right(const data::TaskItem& item);
  bool has_head() const { return parts_.groups.at().pp + 1 == parts_.groups.pipeline().size(); }

  JudgeParts parts_;
  std::int64_t vocabulary_, longest_, stride_;
  train::LikelihoodReader reader_;
  train::TextSampler writer_;
  Arena workspace_{"tasks", MemoryKind::workspace}, cache_{"tasks_cache", MemoryKind::workspace},
      writer_cache_{"answers_cache", MemoryKind::workspace};
};

/// What a model makes of each task, as a table, and as lm-eval writes it. Throws UserError for a model without a tokenizer.
/// Collective.
Answer judge_by_tasks(const LoadedModel& loaded, const std::vector<data::Task>& tasks, std::int64_t stride, Session& session,
                      Log& log);

}  // namespace lockstep::app
