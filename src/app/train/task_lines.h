#pragma once

// Tasks by which a run's model is judged at each of its evaluations (eval.tasks): a line of the log, and one of tasks.jsonl.

#include <memory>
#include <string>
#include <vector>

#include "app/eval_task.h"
#include "io/appended_file.h"
#include "train/report/run_listener.h"

namespace lockstep::app {

class TaskLines final : public train::RunListener {
 public:
  /// `file`: of rank 0; null elsewhere. What `parts` refers to outlives this.
  TaskLines(std::vector<data::Task> tasks, const JudgeParts& parts, std::unique_ptr<io::AppendedFile> file);
  /// On every rank.
  void evaluated(const train::Losses& losses, double begun) override;

 private:
  std::vector<data::Task> tasks_;
  TaskJudge judge_;
  Log& log_;
  std::unique_ptr<io::AppendedFile> file_;
};

}  // namespace lockstep::app
