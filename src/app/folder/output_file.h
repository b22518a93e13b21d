#pragma once

// Files that commands write where the user says: one that is there is replaced only where such a command wrote it.

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/file.h"

namespace lockstep::app {

/// Whether a file that begins with `head` is one of the kind that is written.
using OwnFile = bool (*)(std::string_view head);
bool is_own_page(std::string_view head);
bool is_own_trace(std::string_view head);
bool is_own_drawing(std::string_view head);
bool is_own_table(std::string_view head);   ///< of a schedule's actions
bool is_own_recipe(std::string_view head);  ///< settings in TOML
bool is_own_machine(std::string_view head);
bool is_own_logits(std::string_view head);

/// What keeps a command from writing `file`, as far as it is known before. The file's folder is missing, or a folder, a link or a
/// device has its name. Or it lies in a checkpoint, a run has a file of its name, or it is there and no such command wrote it.
/// `option`: as it is typed, "--out". An empty `file` has no problem.
std::vector<Problem> check_output(std::string_view option, const io::Path& file, OwnFile own);
/// Throws UserError with what check_output() finds.
void demand_output(std::string_view option, const io::Path& file, OwnFile own);

}  // namespace lockstep::app
