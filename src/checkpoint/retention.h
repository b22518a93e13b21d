#pragma once

// Which checkpoints of a run exist and which may go: the best (lowest validation loss) and the latest ones stay.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::checkpoint {

struct SavedStep {
  std::int64_t step = 0;
  std::optional<double> validation_loss;
};

/// The steps that are neither among the `keep_last` latest nor the best; with equal losses the earliest is the best. The
/// latest always stays. In the given order.
std::vector<std::int64_t> superseded(const std::vector<SavedStep>& saved, int keep_last = 2);

/// Deletes the superseded checkpoints of `checkpoints` (`<run>/checkpoints`); what is damaged stays. A deletion that is
/// interrupted leaves no half checkpoint behind: the folder loses its name first. Returns the deleted steps; throws
/// UserError or SystemError when the system refuses.
std::vector<std::int64_t> apply_retention(const std::filesystem::path& checkpoints, int keep_last = 2);

}  // namespace lockstep::checkpoint
