#include "layout/pipeline/action_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text/trimmed.h"
#include "layout/pipeline/lives.h"
#include "layout/pipeline/simulation.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;

constexpr int most_stages = 4096, most_microbatches = 65536, most_problems = 20;

/// Takes the digits at the front of `text`.
std::optional<int> number(std::string_view& text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0 || value > most) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

class TableReader {
 public:
  explicit TableReader(std::string_view name) : name_(name) {}

  ActionTable read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      read_line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    while (!passes_.empty() && passes_.back().empty()) passes_.pop_back();
    if (passes_.empty()) complain("there are no passes in it");
    stop();
    check_stages();
    stop();
    ActionTable table{StageMap(static_cast<int>(passes_.size()), rank_of_), microbatches(), passes_};
    check_order(table);
    stop();
    check_waiting(table);
    stop();
    return table;
  }

 private:
  void complain(const std::string& what) {
    if (std::ssize(problems_) < most_problems) problems_.push_back({fmt::format("{}: {}", name_, what), ""});
  }
  void stop() {
    if (problems_.empty()) return;
    problems_.back().remedy =
        "a line for each rank of cells such as 0F0,1F0,1B0,0B0 (stage, F, B, I or W, micro-batch), as PyTorch writes its action "
        "tables";
    throw UserError(std::move(problems_));
  }

  void read_line(std::string_view line) {
    passes_.emplace_back();
    int column = 1;
    while (true) {
      const std::size_t end = std::min(line.find(','), line.size());
      read_cell(trimmed(line.substr(0, end)), column++);
      if (end == line.size()) return;
      line.remove_prefix(end + 1);
    }
  }

  void read_cell(std::string_view cell, int column) {
    if (cell.starts_with('(')) {
      const std::size_t close = cell.find(')');
      if (cell.substr(std::min(close, cell.size())) != ")OVERLAP_F_B") return refuse(cell, column);
      cell = cell.substr(1, close - 1);
      while (!cell.empty()) {
        const std::size_t end = std::min(cell.find(';'), cell.size());
        read_action(trimmed(cell.substr(0, end)), column);
        cell.remove_prefix(std::min(end + 1, cell.size()));
      }
      return;
    }
    if (!cell.empty()) read_action(cell, column);
  }

  void read_action(std::string_view cell, int column) {
    static const std::map<std::string_view, std::optional<Kind>> kinds{
        {"F", Kind::forward},          {"B", Kind::backward},     {"I", Kind::input_backward}, {"W", Kind::weight_backward},
        {"UNSHARD", std::nullopt},     {"RESHARD", std::nullopt}, {"SEND_F", std::nullopt},    {"RECV_F", std::nullopt},
        {"REDUCE_GRAD", std::nullopt}, {"SEND_B", std::nullopt},  {"RECV_B", std::nullopt}};
    std::string_view rest = cell;
    const std::optional<int> stage = number(rest, most_stages - 1);
    const std::size_t letters = std::min(rest.find_first_of("0123456789"), rest.size());
    const auto kind = kinds.find(rest.substr(0, letters));
    if (!stage || kind == kinds.end()) return refuse(cell, column);
    if (!kind->second) return;
    rest.remove_prefix(letters);
    const std::optional<int> microbatch = number(rest, most_microbatches - 1);
    if (!microbatch || !rest.empty()) return refuse(cell, column);
    passes_.back().push_back({*kind->second, *stage, *microbatch});
  }

  void refuse(std::string_view cell, int column) {
    complain(fmt::format("line {}, column {}: \"{}\" is no pass", passes_.size(), column, cell.substr(0, 40)));
  }

  int microbatches() const {
    int most = 0;
    for (const auto& rank : passes_) {
      for (const StagePass& pass : rank) most = std::max(most, pass.microbatch + 1);
    }
    return most;
  }

  void check_stages() {
    std::map<int, std::set<int>> ranks;  // by stage
    for (std::size_t rank = 0; rank < passes_.size(); ++rank) {
      if (passes_[rank].empty()) complain(fmt::format("line {} has no passes: every rank has a stage", rank + 1));
      for (const StagePass& pass : passes_[rank]) ranks[pass.stage].insert(static_cast<int>(rank));
    }
    for (int stage = 0; stage <= ranks.rbegin()->first; ++stage) {
      const auto found = ranks.find(stage);
      if (found == ranks.end()) {
        complain(fmt::format("no rank has stage {}", stage));
      } else if (found->second.size() > 1) {
        complain(fmt::format("stage {} is on ranks {} and {}: a stage has one rank", stage, *found->second.begin(),
                             *std::next(found->second.begin())));
      } else {
        rank_of_.push_back(*found->second.begin());
      }
    }
  }

  /// Every stage goes through all micro-batches in order, in each of its streams, and not backward before forward.
  void check_order(const ActionTable& table) {
    constexpr std::array streams{Stream::forward, Stream::input_backward, Stream::weight_backward};
    std::map<std::pair<int, Stream>, int> next;
    for (const auto& rank : table.passes) {
      for (const StagePass& pass : rank) {
        for (const Stream stream : streams) {
          if (!belongs(pass.kind, stream)) continue;
          int& due = next[{pass.stage, stream}];
          if (pass.microbatch != due) {
            complain(
                fmt::format("stage {}: {} of micro-batch {} comes where {} is due: passes go in the order of micro-batches, "
                            "without which sums would have other bits",
                            pass.stage, name_of(stream), pass.microbatch, due));
          }
          due = pass.microbatch + 1;
        }
      }
    }
    for (int stage = 0; stage < table.map.stages(); ++stage) {
      for (const Stream stream : streams) {
        const int done = next[{stage, stream}];
        if (done == table.microbatches) continue;
        complain(fmt::format("stage {}: {} stops at micro-batch {} of {}", stage, name_of(stream), done, table.microbatches));
      }
    }
  }

  void check_waiting(const ActionTable& table) {
    for (const std::string& waits : simulate(bare_actions(table.passes, table.map), table.map).deadlock) {
      complain("the ranks wait for each other: " + waits);
    }
  }

  std::string name_;
  std::vector<std::vector<StagePass>> passes_;
  std::vector<int> rank_of_;
  std::vector<Problem> problems_;
};

char letter_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return 'F';
    case Kind::backward:
      return 'B';
    case Kind::input_backward:
      return 'I';
    default:
      return 'W';
  }
}

}  // namespace

ActionTable read_action_table(std::string_view text, std::string_view name) { return TableReader(name).read(text); }

std::string write_action_table(const std::vector<std::vector<StagePass>>& passes) {
  std::string text;
  for (const std::vector<StagePass>& rank : passes) {
    std::string line;
    for (const StagePass& pass : rank) {
      if (!line.empty()) line += ',';
      line += fmt::format("{}{}{}", pass.stage, letter_of(pass.kind), pass.microbatch);
    }
    text += line + '\n';
  }
  return text;
}

}  // namespace lockstep::layout
