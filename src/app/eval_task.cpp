#include "app/eval_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include "base/math/elementary.h"
#include "base/terminal.h"
#include "base/text/trimmed.h"
#include "base/text/visible.h"
#include "data/text/scan.h"

namespace lockstep::app {
namespace {

using data::Task;
using data::TaskItem;
using data::TaskKind;

/// Tokens that the model writes for an answer, at most.
constexpr std::int64_t longest_answer = 64;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The standard error of the mean: the sample's deviation over the root of its size (lm-eval, api/metrics.py: mean_stderr).
std::optional<double> error_of(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const double mean = mean_of(values);
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / (count - 1)) / std::sqrt(count);
}

/// How many numbers an item of the task has. A continuation has its log-likelihood, and its tokens or whether it is the
/// likeliest. A document has its log-likelihood and tokens. An answer has whether it is right.
std::size_t width_of(const Task& task) {
  std::size_t most = 0;
  for (const TaskItem& item : task.items) most = std::max(most, item.continuations.size());
  return task.kind == TaskKind::answers ? 1 : 2 * most;
}

/// As lm-eval counts them: parts between runs of blanks.
std::int64_t words_in(std::string_view text) {
  std::int64_t words = 1;
  bool blank = false;
  for (const char c : text) {
    const bool is = c == ' ' || (c >= '\t' && c <= '\r');
    words += is && !blank ? 1 : 0;
    blank = is;
  }
  return words;
}

/// The scores of a task, of the numbers of its items.
class Scores {
 public:
  Scores(const Task& task, std::span<const double> numbers) : task_(task), numbers_(numbers), width_(width_of(task)) {}

  std::vector<TaskScore> all() {
    switch (task_.kind) {
      case TaskKind::answers:
        mean("exact_match", [](const TaskItem&, std::span<const double> of) { return of[0]; });
        break;
      case TaskKind::last_word:
        mean("perplexity", [](const TaskItem&, std::span<const double> of) { return of[0]; });
        perplexity(scores_.back());
        mean("acc", [](const TaskItem&, std::span<const double> of) { return of[1]; });
        break;
      case TaskKind::choices:
        choices();
        break;
      case TaskKind::documents:
        totals();
        break;
    }
    return std::move(scores_);
  }

 private:
  std::span<const double> of(std::size_t item) const { return numbers_.subspan(item * width_, width_); }

  template <class Value>
  void mean(const char* metric, const Value& value) {
    std::vector<double> values;
    for (std::size_t i = 0; i < task_.items.size(); ++i) values.push_back(value(task_.items[i], of(i)));
    scores_.push_back({metric, mean_of(values), error_of(values)});
  }

  static void perplexity(TaskScore& of_likelihood) {
    of_likelihood.value = exponential(-of_likelihood.value);
    if (of_likelihood.error) *of_likelihood.error *= of_likelihood.value;
  }

  /// Whether the choice with the highest likelihood, for its length, is the right one.
  template <class Length>
  void best(const char* metric, const Length& length) {
    mean(metric, [&](const TaskItem& item, std::span<const double> numbers) {
      std::size_t first = 0;
      const auto score = [&](std::size_t c) { return numbers[2 * c] / length(item, numbers, c); };
      for (std::size_t c = 1; c < item.continuations.size(); ++c) first = score(c) > score(first) ? c : first;
      return first == item.right ? 1.0 : 0.0;
    });
  }

  void choices() {
    // A choice is its text without the blank before it.
    const auto text = [](const TaskItem& item, std::size_t c) { return std::string_view(item.continuations[c]).substr(1); };
    best("acc", [](const TaskItem&, std::span<const double>, std::size_t) { return 1.0; });
    best("acc_norm", [&](const TaskItem& item, std::span<const double>, std::size_t c) {
      return static_cast<double>(data::count_characters(text(item, c)));
    });
    best("acc_bytes",
         [&](const TaskItem& item, std::span<const double>, std::size_t c) { return static_cast<double>(text(item, c).size()); });
    best("acc_tokens", [](const TaskItem&, std::span<const double> numbers, std::size_t c) { return numbers[2 * c + 1]; });
  }

  void totals() {
    double sum = 0, tokens = 0, bytes = 0, words = 0;
    for (std::size_t i = 0; i < task_.items.size(); ++i) {
      const std::string& text = task_.items[i].continuations.front();
      sum += of(i)[0];
      tokens += of(i)[1];
      bytes += static_cast<double>(text.size());
      words += static_cast<double>(words_in(text));
    }
    for (const auto& [metric, value] : {std::pair("word_perplexity", exponential(-sum / words)),
                                        {"byte_perplexity", exponential(-sum / bytes)},
                                        {"bits_per_byte", -sum / bytes / std::numbers::ln2},
                                        {"token_perplexity", exponential(-sum / tokens)}})
      scores_.push_back({metric, value, std::nullopt});
  }

  const Task& task_;
  std::span<const double> numbers_;
  std::size_t width_;
  std::vector<TaskScore> scores_;
};

}  // namespace

TaskJudge::TaskJudge(const JudgeParts& parts)
    : parts_(parts),
      vocabulary_(parts.model.context.config.vocabulary),
      longest_(parts.model.context.config.block_size),
      stride_(parts.stride > 0 ? std::min(parts.stride, longest_) : longest_),
      reader_(parts.model, longest_),
      writer_(parts.model) {
  reader_.declare(workspace_, cache_);
  writer_.declare(workspace_, writer_cache_);
  Ledger ledger;
  for (Arena* arena : {&workspace_, &cache_, &writer_cache_}) arena->commit(parts_.runtime, ledger);
}

std::vector<TaskScore> TaskJudge::judge(const Task& task) {
  const std::size_t width = width_of(task);
  std::vector<double> numbers(task.items.size() * width);
  comm::Communicator& copies = parts_.groups.data();
  const auto count = static_cast<std::size_t>(parts_.divides ? copies.size() : 1);
  const auto mine = static_cast<std::size_t>(parts_.divides ? copies.rank() : 0);
  std::optional<ProgressBar> bar;
  if (parts_.shows) bar.emplace(stderr, task.name, static_cast<double>(task.items.size()));
  for (std::size_t i = mine; i < task.items.size(); i += count) {
    judge(task, task.items[i], std::span(numbers).subspan(i * width, width));
    if (bar) bar->update(static_cast<double>(i + 1), "");
  }
  if (bar) bar->finish();
  // Where the head is not, and of items of others, there are zeros.
  const auto add = [&](comm::Communicator& ranks) {
    ranks.host().all_reduce(view(std::span(numbers), Shape{std::ssize(numbers)}), comm::Reduction::sum).wait();
  };
  add(parts_.groups.pipeline());
  if (parts_.divides) add(copies);
  std::vector<TaskScore> scores = Scores(task, numbers).all();
  for (const TaskScore& score : scores) {
    if (std::isfinite(score.value)) continue;
    throw UserError(
        fmt::format("{}: {} is not finite: the model computes numbers beyond those of its type", task.name, score.metric),
        "read it with --dtype fp32, or take another checkpoint: --checkpoint");
  }
  return scores;
}

void TaskJudge::judge(const Task& task, const TaskItem& item, std::span<double> to) {
  if (task.kind == TaskKind::documents) return judge_document(item.continuations.front(), to);
  if (task.kind == TaskKind::answers) {
    to[0] = answers_right(item) ? 1 : 0;
    return;
  }
  for (std::size_t c = 0; c < item.continuations.size(); ++c) {
    const auto [likelihood, tokens] = continuation(item.context, item.continuations[c]);
    if (!has_head()) continue;
    const double likeliest = likelihood.likeliest ? 1 : 0;
    to[2 * c] = likelihood.sum;
    to[2 * c + 1] = task.kind == TaskKind::choices ? static_cast<double>(tokens) : likeliest;
  }
}

/// Tokenised with its context, whose blanks at the end go along (lm-eval, api/model.py: _encode_pair). A text that is too long
/// lacks its first tokens.
TaskJudge::Judged TaskJudge::continuation(const std::string& context, const std::string& text) {
  const auto ids_of = [&](std::string_view part) { return data::encode_prompt(parts_.tokenizer, part, vocabulary_, parts_.log); };
  const std::size_t end = context.find_last_not_of(' ') + 1;
  std::vector<std::int32_t> before = ids_of(std::string_view(context).substr(0, end)), whole = ids_of(context + text);
  if (before.empty()) {
    before = beginning();
    whole.insert(whole.begin(), before.begin(), before.end());
  }
  std::size_t from = std::min(before.size(), whole.size() - 1);
  const std::size_t tokens = whole.size() - from, most = static_cast<std::size_t>(longest_) + 1;
  if (whole.size() > most) {
    const std::size_t cut = whole.size() - most;
    whole.erase(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
    from = std::max<std::size_t>(1, from > cut ? from - cut : 0);
  }
  return {reader_.of(whole, from), tokens};
}

/// The tokens before a text that has none before it.
std::vector<std::int32_t> TaskJudge::beginning() const {
  const std::span<const std::int32_t> begin = parts_.tokenizer.begin_of_text();
  if (!begin.empty()) return {begin.begin(), begin.end()};
  return {parts_.tokenizer.end_of_text().value_or(0)};
}

/// In windows that are as full as the text allows, each of which counts what none before it had (lm-eval, utils.py:
/// get_rolling_token_windows).
void TaskJudge::judge_document(const std::string& text, std::span<double> to) {
  std::vector<std::int32_t> ids = data::encode_prompt(parts_.tokenizer, text, vocabulary_, parts_.log);
  if (parts_.tokenizer.begin_of_text().empty()) ids.insert(ids.begin(), beginning().front());
  const auto length = static_cast<std::size_t>(longest_), stride = static_cast<std::size_t>(stride_);
  for (std::size_t done = 1, end = length + 1; done < ids.size(); end = done + stride) {
    end = std::min(end, ids.size());
    const std::size_t begin = end - std::min(end, length + 1);
    const train::Likelihood part = reader_.of(std::span(ids).subspan(begin, end - begin), done - begin);
    if (has_head()) to[0] += part.sum;
    done = end;
  }
  if (has_head()) to[1] = static_cast<double>(ids.size() - 1);
}

/// The likeliest text behind the context, up to a line feed or the end of a text, is the answer.
bool TaskJudge::answers_right(const TaskItem& item) {
  const std::vector<std::int32_t> prompt = data::encode_prompt(parts_.tokenizer, item.context, vocabulary_, parts_.log);
  train::SampleOptions greedy{.tokens = longest_answer, .temperature = 0};
  greedy.never = data::missing_ids(parts_.tokenizer, vocabulary_);
  std::vector<std::int32_t> written;
  std::string line;
  bool ended = false;
  writer_.run(prompt.empty() ? beginning() : prompt, greedy, [&](std::int32_t id) {
    if (id == parts_.tokenizer.end_of_text()) return false;
    written.push_back(id);
    const std::string text = parts_.tokenizer.decode(written);
    const std::string_view answer = std::string_view(text).substr(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
    line = trimmed(answer.substr(0, answer.find('\n')));
    ended = answer.find('\n') != std::string_view::npos;
    return !ended;
  });
  return has_head() && line == trimmed(item.continuations.front());
}

Answer judge_by_tasks(const LoadedModel& loaded, const std::vector<Task>& tasks, std::int64_t stride, Session& session,
                      Log& log) {
  if (!loaded.tokenizer) throw UserError("--task: " + loaded.no_tokenizer, "give a model that has its tokenizer");
  TaskJudge judge({.model = loaded.inference->share(),
                   .tokenizer = *loaded.tokenizer,
                   .groups = *loaded.groups,
                   .runtime = session.runtime(),
                   .log = log,
                   .shows = session.lead(),
                   .stride = stride});
  Table table(
      {{"task", "task"}, {"items", "items"}, {"metric", "metric"}, {"value", "value", "{:.4f}"}, {"stderr", "+-", "{:.4f}"}});
  Json results{Json::Object{}}, counts{Json::Object{}};
  for (const Task& task : tasks) {
    Json of_task{Json::Object{{"alias", task.name}}};
    const auto count = static_cast<std::int64_t>(task.items.size());
    for (const auto& [metric, value, error] : judge.judge(task)) {
      table.row({task.name, count, metric, value, error ? Cell(*error) : Cell(Json())});
      of_task.set(metric + ",none", value);
      of_task.set(metric + "_stderr,none", error ? Json(*error) : Json("N/A"));
    }
    results.set(task.name, std::move(of_task));
    counts.set(task.name, Json::Object{{"original", count}, {"effective", count}});
  }
  Answer answer;
  answer.say(fmt::format("model  {}\n\n", visible(loaded.folder)));
  answer.fact("results", std::move(results));
  answer.fact("n-samples", std::move(counts));
  answer.table("metrics", table);
  return answer;
}

}  // namespace lockstep::app
