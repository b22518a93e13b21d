#pragma once

// Where the checkpoints of a run lie: `<run>/checkpoints/step_N/`, and which one a name means. A folder gets its name when its
// save ends: one of that name without a manifest is damaged.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/communicator.h"

namespace lockstep::checkpoint {

inline constexpr std::string_view checkpoints_folder = "checkpoints";

/// "step_N".
std::string folder_name(std::int64_t step);

struct Found {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::optional<Manifest> manifest;  ///< absent when it is damaged
  std::string fault;                 ///< why it is damaged, where it is
};

/// Whether the folder has a checkpoint's manifest and is no run folder (which may have a manifest.json of its own).
bool is_checkpoint(const std::filesystem::path& folder);

/// Reads `<folder>/manifest.json`; throws UserError when it is missing or damaged.
Manifest read_manifest(const std::filesystem::path& folder);

/// Whether the run folder has anything that a run saved, damaged or not. Throws UserError where the folder cannot be read.
bool has_checkpoints(const std::filesystem::path& run);

/// The checkpoints of a run folder (or of its `checkpoints` folder), in the order of their steps. Throws UserError where the
/// folder is there and cannot be read.
std::vector<Found> list_checkpoints(const std::filesystem::path& run);

struct Choice {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> passed_over;  ///< why later or better ones were not taken: to warn about
};

/// The checkpoint that `path` means. A checkpoint's own folder means itself; a step number in `which` must be its own then. For a
/// run's folder `which` is "last", "best" (lowest validation loss; the last when none was measured) or a step number. Damaged
/// ones are passed over, but not the one of a step number. Throws UserError that lists what there is.
Choice choose_checkpoint(const std::filesystem::path& path, std::string_view which);

/// Rank 0's choice on every rank, or its error: what the others see in the folder, which may be older, does not matter.
/// Collective.
Choice choose_checkpoint(comm::Communicator& ranks, const std::filesystem::path& path, std::string_view which);

/// The step of a run's last whole checkpoint; none: the run has saved nothing. Throws UserError where all are damaged.
std::optional<std::int64_t> saved_step(const std::filesystem::path& run);

/// Index of the best of these losses: the lowest, of equal ones the first; none when no loss is known. NaN is never
/// the best.
std::optional<std::size_t> best_of(const std::vector<std::optional<double>>& losses);

}  // namespace lockstep::checkpoint
