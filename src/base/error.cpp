#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/text/visible.h"

namespace lockstep {
namespace {

const std::vector<Problem>& show(std::vector<Problem>& problems) {
  for (Problem& problem : problems) problem = {visible(problem.message), visible(problem.remedy)};
  return problems;
}

std::string joined(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += problem.message;
    if (!problem.remedy.empty()) text += fmt::format("\n  -> {}", problem.remedy);
  }
  return text;
}

}  // namespace

UserError::UserError(std::string message, std::string remedy)
    : UserError(std::vector<Problem>{{std::move(message), std::move(remedy)}}) {}

UserError::UserError(std::vector<Problem> problems)
    : std::runtime_error(joined(show(problems))), problems_(std::move(problems)) {}

void ensure(bool condition, std::string_view rule, std::source_location where) {
  if (!condition) {
    throw BrokenRule(fmt::format("{}:{} in {}: broken rule: {}", where.file_name(), where.line(), where.function_name(), rule));
  }
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = name.size() / 2 + 1;
  for (const std::string& candidate : known) {
    const std::size_t apart = candidate.size() > name.size() ? candidate.size() - name.size() : name.size() - candidate.size();
    if (apart >= best_distance) continue;  // as many changes at the least
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= name.size() && std::ranges::min(row) < best_distance; ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t change = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace lockstep
