#include "app/train/task_lines.h"

#include <fmt/format.h>

#include <utility>

#include "base/number_text.h"
#include "comm/agreement.h"

namespace lockstep::app {

std::vector<data::Task> tasks_of(const RunConfig& config, const data::Corpus& corpus, comm::Communicator& world) {
  std::vector<data::Task> tasks;
  if (!config.eval.tasks) return tasks;
  comm::together(world, [&] {
    if (!corpus.tokenizer) {
      throw UserError(fmt::format("eval.tasks = {}: the text has no tokenizer", *config.eval.tasks),
                      "prepare it with lockstep prepare, or leave eval.tasks out");
    }
    for (const std::string& task : parts_of_list(*config.eval.tasks, ',')) tasks.push_back(data::read_task(task));
  });
  return tasks;
}

TaskLines::TaskLines(std::vector<data::Task> tasks, const JudgeParts& parts, std::unique_ptr<io::AppendedFile> file)
    : tasks_(std::move(tasks)), judge_(parts), log_(parts.log), file_(std::move(file)) {}

void TaskLines::evaluated(const train::Losses& losses, double /*begun*/) {
  judge_.forget();
  Json row = Json::Object{{"step", losses.step}};
  for (const data::Task& task : tasks_) {
    std::string line;
    Json scores{Json::Object{}};
    for (const auto& [metric, value, error] : judge_.judge(task)) {
      line += fmt::format("{} {} {:.4f}", line.empty() ? "" : ",", metric, value);
      scores.set(metric, value);
      if (error) scores.set(metric + "_stderr", *error);
    }
    log_.info(fmt::format("step {}: {}:{}", losses.step, task.name, line));
    row.set(task.name, std::move(scores));
  }
  if (file_) file_->append(row.dump() + "\n");
}

}  // namespace lockstep::app
