#include "app/folder/output_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "app/cli/page.h"
#include "app/folder/folder_owner.h"
#include "app/settings/config_file.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace fs = std::filesystem;

namespace {

/// Retention deletes a checkpoint with all that is in it.
bool is_in_checkpoints(const io::Path& folder) {
  for (io::Path above = io::whole_path(folder); above != above.root_path(); above = above.parent_path()) {
    const bool holds_them =
        above.filename() == checkpoint::checkpoints_folder && owner_of(above.parent_path()) == FolderOwner::run;
    if (holds_them || owner_of(above) == FolderOwner::checkpoint) return true;
  }
  return false;
}

}  // namespace

bool is_own_page(std::string_view head) { return head.starts_with(page_start); }

bool is_own_trace(std::string_view head) { return head.starts_with("{\"displayTimeUnit\":\"ms\",\"otherData\":"); }

bool is_own_drawing(std::string_view head) {
  return head.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"schedule\"");
}

bool is_own_table(std::string_view head) {
  constexpr std::string_view digits = "0123456789";
  const std::string_view cell = head.substr(0, head.find_first_of(",\n"));
  const std::size_t letter = cell.find_first_not_of(digits);
  if (letter == 0 || letter == std::string_view::npos || letter + 1 >= cell.size()) return false;
  return std::string_view("FBIW").find(cell[letter]) != std::string_view::npos &&
         cell.find_first_not_of(digits, letter + 1) == std::string_view::npos;
}

bool is_own_recipe(std::string_view head) { return head.starts_with(settings_file_start); }

bool is_own_machine(std::string_view head) { return head.starts_with("name = ") && head.find("\nnodes = ") != head.npos; }

bool is_own_logits(std::string_view head) {
  constexpr std::size_t length_bytes = 8;  // of a safetensors file's header
  return head.size() > length_bytes && head.substr(length_bytes).starts_with("{\"") && head.find("\"logits\"") != head.npos;
}

std::vector<Problem> check_output(std::string_view option, const io::Path& file, OwnFile own) {
  if (file.empty()) return {};
  const std::string typed = fmt::format("{} {}", option, file.string());
  const std::string another = fmt::format("name another file: {} FILE", option);
  const io::Path folder = io::folder_of(file);
  if (const std::string why = io::why_no_folder(folder); !why.empty()) {
    std::error_code hidden;
    const bool missing = !fs::exists(folder, hidden) && !hidden;
    return {{missing ? fmt::format("{}: there is no folder {}", typed, folder.string())
                     : fmt::format("{}: the folder {}: {}", typed, folder.string(), why),
             fmt::format("mkdir -p {}, or name a file in a folder that is there", folder.string())}};
  }
  std::error_code unknown;
  if (fs::is_directory(file, unknown)) return {{typed + ": this is a folder", "name a file in it"}};
  if (fs::is_symlink(file, unknown)) return {{typed + ": this is a link, which the file would take the place of", another}};
  if (io::is_special(file)) return {{typed + ": this is a device or a pipe, which no file can take the place of", another}};
  if (is_in_checkpoints(folder))
    return {{fmt::format("{}: it would lie in {}", typed, name_of(FolderOwner::checkpoint)), another}};
  if (owner_of(folder) == FolderOwner::run && is_name_of_run(file.filename().string()))
    return {{typed + ": the run of this folder writes a file of that name", another}};
  if (!fs::exists(fs::symlink_status(file, unknown))) return {};
  const std::string head = first_bytes(file);
  if (own(head) || (head.empty() && fs::is_empty(file, unknown))) return {};
  return {{typed + ": a file of that name is there, and this command did not write it", "move it away, or " + another}};
}

void demand_output(std::string_view option, const io::Path& file, OwnFile own) {
  if (std::vector<Problem> problems = check_output(option, file, own); !problems.empty()) throw UserError(std::move(problems));
}

}  // namespace lockstep::app
