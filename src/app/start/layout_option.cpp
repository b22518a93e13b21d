#include "app/start/layout_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/number_text.h"
#include "comm/mpi/mpi_job.h"

namespace lockstep::app {

void LayoutOption::declare(CommandLine& line, const std::string& meaning, const std::string& shared) {
  line.option("--layout", words, "WORDS", meaning);
  line.option("--ranks", ranks, "N", "short for --layout dp=N: ranks that share " + shared);
}

void LayoutOption::read(std::vector<Problem>& problems, const std::vector<std::string_view>& allowed) {
  if (words.empty()) return;
  if (ranks != 1) {
    problems.push_back({fmt::format("--ranks {} and --layout {}: a layout says how many ranks there are", ranks, words),
                        fmt::format("--layout dp={},...", ranks)});
  }
  layout = lab::layout_from(words, problems, lab::bench_defaults);
  for (const std::string& word : parts_of_list(words)) {
    if (layout && !allowed.empty() && std::ranges::count(allowed, word.substr(0, word.find('='))) == 0) {
      problems.push_back({fmt::format("{} in the layout {}: it means nothing here", word, words),
                          fmt::format("words are {}", fmt::join(allowed, ", "))});
    }
  }
}

std::int64_t LayoutOption::ranks_to_start() const { return layout && !comm::find_mpi_job() ? layout->plan.ranks() : ranks; }

}  // namespace lockstep::app
