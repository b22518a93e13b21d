#pragma once

// Writes one checkpoint: `<checkpoints>/step_N/` with its files and, last, the manifest. Everything goes into a hidden
// folder that gets its name when all of it is on the device: a save that is interrupted at any point, or fails, leaves the
// earlier checkpoints as they were.

#include <cstdint>
#include <span>
#include <string_view>

#include "checkpoint/manifest.h"
#include "io/new_folder.h"

namespace lockstep::checkpoint {

class Writer {
 public:
  /// Starts the checkpoint of `step` in `checkpoints` (`<run>/checkpoints`, made when missing). What dead saves left there
  /// is deleted.
  Writer(const io::Path& checkpoints, std::int64_t step);

  /// Writes one file of the checkpoint. Names of tensors are unique over all files.
  void write(std::string_view file, std::span<const HeldTensor> tensors, cpu::Team& team);

  /// Syncs the files, writes the manifest (its step, files and tensors are filled in) and gives the folder its name. What
  /// throws before leaves nothing behind. Returns the checkpoint's folder.
  io::Path commit(Manifest manifest);

 private:
  io::Path target_;
  std::int64_t step_;
  io::NewFolder folder_;
  Manifest written_;
  std::vector<io::File> open_;
};

/// Throws UserError when the folder's file system has less space left than `what` needs: better now than after minutes of
/// writing.
void check_space(const io::Path& folder, std::uint64_t needed, std::string_view what);

/// What a training run saves. Every range that this rank holds.
struct Content {
  std::vector<HeldTensor> model;      ///< weights by their global names
  std::vector<HeldTensor> optimizer;  ///< moments, and masters where they are not the weights themselves
};

struct SaveReport {
  io::Path folder;
  std::uint64_t bytes = 0;
  double written_seconds = 0;  ///< until training could have changed the tensors again
  double durable_seconds = 0;  ///< until all was on the device, from the start
};

/// Writes a whole checkpoint of `manifest.step` into `<run>/checkpoints`. Throws UserError before writing anything when the
/// file system has not enough space, and when it runs out of it.
SaveReport save(const io::Path& run, const Content& content, Manifest manifest, cpu::Team& team);

}  // namespace lockstep::checkpoint
