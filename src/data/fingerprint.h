#pragma once

// Which text a run reads: a resume with another one is another run.

#include "base/json.h"
#include "base/log.h"
#include "io/file.h"

namespace lockstep::data {

/// SHA-256 by file name of a prepared folder's train.bin and val.bin and of their masks. It is what tokens.json says, else it is
/// computed, which reads the files. Throws UserError when one is missing.
Json fingerprint(const io::Path& folder, Log& log);

}  // namespace lockstep::data
