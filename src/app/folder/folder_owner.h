#pragma once

// The owner of a folder, by what the folder holds. Every command that writes asks here before it does.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/file.h"

namespace lockstep::app {

enum class FolderOwner : std::uint8_t { nobody, run, checkpoint, data, model, sweep };
/// "a run", "prepared text".
std::string_view name_of(FolderOwner owner);

/// The kind of thing that the files in `folder` make it, whatever folders above it are called. FolderOwner::nobody where no kind
/// fits, or the folder cannot be read.
FolderOwner owner_of(const io::Path& folder);

/// Why `folder` cannot become, or go on as, a folder of `owner`. Another owner has it, a folder above it or one right in it. Or
/// `folder` is a file or `/`, its name has control characters, or it has files of a run's names that no run made. `typed`: what
/// the user said, as "--out DIR". A sweep above does not count. Nor does prepared text or a model above where the user works
/// inside of it.
std::vector<Problem> check_place(const io::Path& folder, FolderOwner owner, const std::string& typed, const std::string& remedy);

/// Whether a run writes a file of this name into its folder.
bool is_name_of_run(std::string_view name);

/// The first bytes of a regular file, at most `count`; empty where it cannot be read.
std::string first_bytes(const io::Path& file, std::size_t count = 4096);

}  // namespace lockstep::app
