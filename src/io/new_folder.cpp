#include "io/new_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/error.h"

namespace lockstep::io {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view partial_suffix = ".partial";
constexpr std::string_view removed_suffix = ".removed";

Path hidden_sibling(const Path& path, std::string_view suffix) {
  return path.parent_path() / fmt::format(".{}{}", path.filename().string(), suffix);
}

Path parent_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

void delete_tree(const Path& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed) throw_file_error(failed.value(), "delete", path);
}

// An open descriptor of the folder with the lock on it, or -1 when another process has the lock. File systems without locks
// give a descriptor too: they cannot tell, and a run folder has one writer.
int lock_folder(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw_file_error(errno, "open the folder", path);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

// Deletes a hidden folder unless a living process holds it; whether it is gone.
bool delete_if_dead(const Path& path) {
  const int lock = lock_folder(path);
  if (lock < 0) return false;
  ::close(lock);
  delete_tree(path);
  return true;
}

}  // namespace

NewFolder::NewFolder(Path path) : path_(std::move(path)), partial_(path_until_commit(path_)) {
  make_folders(parent_of(path_));
  if (fs::is_directory(partial_) && !delete_if_dead(partial_)) {
    throw UserError(fmt::format("{}: another process is writing this folder", path_.string()),
                    "wait for it, end it, or choose another folder for this run");
  }
  if (::mkdir(partial_.c_str(), 0777) != 0) throw_file_error(errno, "make the folder", partial_);
  lock_ = lock_folder(partial_);
}

Path NewFolder::path_until_commit(const Path& path) { return hidden_sibling(path, partial_suffix); }

NewFolder::~NewFolder() {
  if (!committed_) {
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }
  if (lock_ >= 0) ::close(lock_);
}

void NewFolder::commit() {
  ensure(!committed_, "a folder is committed once");
  sync_folder(partial_);
  const bool replaces = fs::exists(fs::symlink_status(path_));
  // An exchange leaves the older folder under the partial name, where it is deleted now or as a dead one later.
  const unsigned exchange = replaces ? RENAME_EXCHANGE : 0;
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), exchange) != 0) {
    if (!replaces || errno != EINVAL) throw_file_error(errno, "name the folder", path_);
    remove_folder(path_);  // a file system that cannot exchange
    if (::rename(partial_.c_str(), path_.c_str()) != 0) throw_file_error(errno, "name the folder", path_);
  }
  committed_ = true;
  sync_folder(parent_of(path_));
  if (replaces && fs::exists(fs::symlink_status(partial_))) delete_tree(partial_);
}

void remove_dead_folders(const Path& parent) {
  std::error_code failed;
  std::vector<Path> dead;
  for (fs::directory_iterator it(parent, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    const bool ours = name.starts_with('.') && (name.ends_with(partial_suffix) || name.ends_with(removed_suffix));
    if (ours && it->is_directory()) dead.push_back(it->path());
  }
  for (const Path& path : dead) delete_if_dead(path);
}

void remove_folder(const Path& path) {
  const Path removed = hidden_sibling(path, removed_suffix);
  delete_tree(removed);
  if (::rename(path.c_str(), removed.c_str()) != 0) throw_file_error(errno, "delete", path);
  delete_tree(removed);
}

}  // namespace lockstep::io
