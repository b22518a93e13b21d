#pragma once

// Whether token files are those that their description was written with: by their SHA-256, once for each file as it is.

#include <span>
#include <string>

#include "base/log.h"
#include "data/token_description.h"

namespace lockstep::data {

/// Compares files of a prepared folder, and their masks, with the description; throws UserError that names all that differ. A
/// file that agreed is read again only when its size, time of change or inode is another. In folders that can be written
/// ".NAME.verified" beside the file keeps these.
void verify_files(const io::Path& folder, const TokenDescription& description, std::span<const std::string> names, Log& log);

/// The path of ".NAME.verified" beside a file.
io::Path stamp_path(const io::Path& file);

}  // namespace lockstep::data
