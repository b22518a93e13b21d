#include "data/prepare/staging.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/verification.h"
#include "io/folder_entries.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view partial_start = ".prepare.";
constexpr const char* tokenizer_copy = "tokenizer.json";

bool there(const io::Path& path) { return fs::exists(fs::symlink_status(path)); }

void move(const io::Path& from, const io::Path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed) io::throw_file_error(failed.value(), "replace", to);
}

void remove_one(const io::Path& path) {
  std::error_code failed;
  fs::remove(path, failed);
  if (failed) io::throw_file_error(failed.value(), "delete", path);
}

// The text of a BPE's copy; nothing for another tokenizer.
const std::string* copied(const TokenDescription& description) {
  const Json* text = description.tokenizer.is_object() ? description.tokenizer.find(stored_bpe) : nullptr;
  return text != nullptr && text->is_string() ? &text->string() : nullptr;
}

// The files that a preparation makes of a description, without tokens.json.
std::set<std::string> files_of(const TokenDescription& description) {
  std::set<std::string> names;
  for (const TokenFileFacts& file : description.files) {
    if (!is_prepared_name(file.name)) continue;
    names.insert(file.name);
    if (file.mask) names.insert(file.mask->name);
  }
  return names;
}

// What lies in the folder itself, not what waits to be moved there; nothing where that is no description. One that cannot be read
// is an error: the files that it names would stay for ever.
std::optional<TokenDescription> placed_description(const io::Path& folder) {
  const io::Path path = folder / description_file;
  if (!there(path)) return std::nullopt;
  const std::string text = description_text(path);
  try {
    return parse_description(text, path.string());
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Whether the tokenizer.json of a folder is the copy that the preparation before made.
bool owns_copy(const io::Path& folder, const TokenDescription& before) {
  const std::string* text = copied(before);
  const io::Path path = folder / tokenizer_copy;
  return text != nullptr && fs::is_regular_file(path) && fs::file_size(path) == text->size() && io::read_file(path) == *text;
}

// Throws unless each of `names` that is in the folder was made by the preparation before.
void demand_own(const io::Path& folder, const std::set<std::string>& names) {
  const std::optional<TokenDescription> before = placed_description(folder);
  const std::set<std::string> own = before ? files_of(*before) : std::set<std::string>();
  std::vector<Problem> problems;
  for (const std::string& name : names) {
    const bool ours = own.contains(name) || (before && name == description_file) ||
                      (before && name == tokenizer_copy && owns_copy(folder, *before));
    if (ours || !there(folder / name)) continue;
    problems.push_back({fmt::format("{} is there, and no preparation made it", (folder / name).string()),
                        "move it elsewhere, or name another folder with --out"});
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

// Moves the files of ".prepared" up.
void finish(const io::Path& out) {
  const io::Path from = out / prepared_folder;
  if (!there(from / description_file)) return remove_one(from);  // moved, all of them
  const TokenDescription now = read_description_file(from / description_file);
  std::set<std::string> names = files_of(now);
  if (copied(now) != nullptr) names.insert(tokenizer_copy);
  if (const std::optional<TokenDescription> before = placed_description(out)) {
    for (const std::string& old : files_of(*before)) {
      if (names.contains(old)) continue;
      remove_one(stamp_path(out / old));
      remove_one(out / old);
    }
    if (!names.contains(tokenizer_copy) && owns_copy(out, *before)) remove_one(out / tokenizer_copy);
  }
  for (const std::string& name : names) {
    remove_one(stamp_path(out / name));
    if (there(from / name)) move(from / name, out / name);
  }
  io::sync_folder(out);
  move(from / description_file, out / description_file);
  remove_one(from);
  io::sync_folder(out);
}

std::vector<io::Path> entries_of(const io::Path& folder) {
  std::error_code failed;
  std::vector<io::Path> entries = io::entries_of(folder, failed);
  if (failed) io::throw_file_error(failed.value(), "list", folder);
  return entries;
}

}  // namespace

Staging::Staging(const FolderLock& lock) : out_(lock.folder()) {
  if (there(out_ / prepared_folder)) finish(out_);
  demand_own(out_, {"train.bin", "val.bin", description_file});
  if (lock.exclusive()) {
    for (const io::Path& entry : entries_of(out_)) {
      if (entry.filename().string().starts_with(partial_start) && fs::is_directory(entry)) fs::remove_all(entry);
    }
  }
  std::string name = (out_ / fmt::format("{}XXXXXX", partial_start)).string();
  if (::mkdtemp(name.data()) == nullptr) io::throw_file_error(errno, "make a folder in", out_);
  partial_ = name;
}

Staging::~Staging() {
  std::error_code none;
  if (!committed_) fs::remove_all(partial_, none);
}

void Staging::commit(const TokenDescription& description) {
  ensure(!committed_, "a preparation is committed once");
  std::set<std::string> names = files_of(description);
  if (const std::string* text = copied(description)) {
    const io::Path found = out_ / tokenizer_copy;
    const bool same = fs::is_regular_file(found) && io::read_file(found) == *text;  // the text may have been read from there
    if (!same) io::replace_file(partial_ / tokenizer_copy, *text);
    if (!same) names.insert(tokenizer_copy);
  }
  demand_own(out_, names);
  for (const io::Path& entry : entries_of(partial_)) {
    if (!names.contains(entry.filename().string())) remove_one(entry);  // what the preparation had for itself
  }
  write_description(partial_, description);
  io::sync_folder(partial_);
  move(partial_, out_ / prepared_folder);
  committed_ = true;
  io::sync_folder(out_);
  finish(out_);
}

}  // namespace lockstep::data
