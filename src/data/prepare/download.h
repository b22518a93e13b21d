#pragma once

// One file from the network, by the installed curl.

#include <string>

#include "io/file.h"

namespace lockstep::data {

/// Fetches `url` into `path`, which appears only when all of it is there. Throws UserError, with what `curl` said, when there is
/// no network, no such file or no such program; `remedy` says how to do without.
void download(const std::string& url, const io::Path& path, const std::string& remedy, const std::string& curl = "curl");

}  // namespace lockstep::data
