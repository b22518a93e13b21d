#pragma once

// Tasks by which a run's model is judged at each of its evaluations (eval.tasks): a line of the log, and one of tasks.jsonl.

#include <memory>
#include <string>
#include <vector>

#include "app/eval_task.h"
#include "app/settings/run_config.h"
#include "comm/communicator.h"
#include "data/corpus.h"
#include "io/appended_file.h"
#include "train/report/run_listener.h"

namespace lockstep::app {

/// The tasks of eval.tasks, which are read with the text's tokenizer. Throws UserError. Collective.
std::vector<data::Task> tasks_of(const RunConfig& config, const data::Corpus& corpus, comm::Communicator& world);

class TaskLines final : public train::RunListener {
 public:
  /// `file`: of rank 0; null elsewhere. What `parts` refers to outlives this.
  TaskLines(std::vector<data::Task> tasks, const JudgeParts& parts, std::unique_ptr<io::AppendedFile> file);
  /// Judges the model; is called on every rank.
  void evaluated(const train::Losses& losses, double begun) override;

 private:
  std::vector<data::Task> tasks_;
  TaskJudge judge_;
  Log& log_;
  std::unique_ptr<io::AppendedFile> file_;
};

}  // namespace lockstep::app
