#pragma once

#include "io/file.h"

namespace lockstep::io {

/// The folder for temporary files (TMPDIR, else /tmp), in which a file can be made. Throws UserError that names it and TMPDIR.
Path temporary_folder();

}  // namespace lockstep::io
