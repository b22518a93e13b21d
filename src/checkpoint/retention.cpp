#include "checkpoint/retention.h"

#include <algorithm>

#include "checkpoint/find.h"
#include "checkpoint/problems.h"
#include "io/new_folder.h"

namespace lockstep::checkpoint {
namespace fs = std::filesystem;

std::vector<std::int64_t> superseded(const std::vector<SavedStep>& saved, int keep_last) {
  std::vector<std::int64_t> steps;
  for (const SavedStep& one : saved) steps.push_back(one.step);
  std::sort(steps.begin(), steps.end(), std::greater<>());
  const auto kept = std::min(steps.size(), static_cast<std::size_t>(std::max(keep_last, 1)));
  const std::int64_t oldest_kept = steps.empty() ? 0 : steps[kept - 1];

  std::vector<SavedStep> in_order = saved;
  std::sort(in_order.begin(), in_order.end(), [](const SavedStep& a, const SavedStep& b) { return a.step < b.step; });
  std::vector<std::optional<double>> losses;
  for (const SavedStep& one : in_order) losses.push_back(one.validation_loss);
  const auto best = best_of(losses);

  std::vector<std::int64_t> gone;
  for (const SavedStep& one : saved) {
    if (one.step < oldest_kept && !(best && in_order[*best].step == one.step)) gone.push_back(one.step);
  }
  return gone;
}

std::vector<std::int64_t> apply_retention(const fs::path& checkpoints, int keep_last) {
  std::vector<SavedStep> saved;
  for (const Found& found : list_checkpoints(checkpoints)) {
    if (found.manifest && fault_of_files(found.folder, *found.manifest).empty())
      saved.push_back({found.step, found.manifest->validation_loss});
  }
  const std::vector<std::int64_t> gone = superseded(saved, keep_last);
  for (const std::int64_t step : gone) io::remove_folder(checkpoints / folder_name(step));
  return gone;
}

}  // namespace lockstep::checkpoint
