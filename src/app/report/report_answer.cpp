#include <fmt/format.h>

#include <algorithm>

#include "app/report/report_page.h"
#include "base/text/visible.h"

namespace lockstep::app {
namespace {

/// A table of runs, in the text with a column for each run and without rows that say nothing of any.
void add(Answer& answer, std::string_view title, const std::string& key, const Table& table) {
  answer.rows(key, table);
  if (table.empty()) return;
  const std::vector<std::vector<std::string>> lines = table.turned().lines();
  Table said = Table::of_text(lines[0]);
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    if (std::ranges::any_of(line->begin() + 1, line->end(), [](const std::string& cell) { return cell != "-"; }))
      said.row(std::vector<Cell>(line->begin(), line->end()));
  }
  answer.say(fmt::format("\n{}\n{}", title, visible(said.text(), LineBreaks::kept)));
}

}  // namespace

Answer report_answer(const std::vector<RunData>& runs) {
  const bool by_tokens = compares_by_tokens(runs);
  const std::string_view x_label = by_tokens ? "tokens" : "optimizer step";
  std::vector<Series> loss, speed;
  for (const RunData& run : runs) {
    loss.push_back(run.loss(by_tokens));
    speed.push_back(run.curve(&train::LoggedStep::tokens_per_second, by_tokens));
  }
  Answer answer;
  answer.say(visible(plot("loss", x_label, loss) + "\n" + plot("tokens per second", x_label, speed), LineBreaks::kept));
  add(answer, "Runs", "runs", summary_table(runs));
  add(answer, "Seconds of a step (rank 0, medians)", "steps", account_table(runs));
  add(answer, "Communication", "communication", communication_table(runs));
  const Table exchanges = exchange_table(runs);
  answer.rows("exchanges", exchanges);
  if (!exchanges.empty())
    answer.say(fmt::format("\nExchanges of a step (rank 0, medians)\n{}", visible(exchanges.text(), LineBreaks::kept)));
  add(answer, "Memory of rank 0", "memory", memory_table(runs));
  answer.rows("origins", origin_table(runs));
  std::vector<SettingRow> rows = setting_rows(runs);
  std::erase_if(rows, [](const SettingRow& row) { return !row.differs; });
  const Table settings = settings_table(runs, rows);
  answer.rows("settings", settings);
  answer.say(fmt::format("\n{}{}\n{}", settings_title(runs), settings.empty() ? ": none" : "",
                         settings.empty() ? "" : visible(settings.text(), LineBreaks::kept)));
  return answer;
}

}  // namespace lockstep::app
