#include "io/new_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/folder_entries.h"
#include "io/interrupted.h"

namespace lockstep::io {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view partial_suffix = ".partial";
constexpr std::string_view removed_suffix = ".removed";
constexpr std::string_view replaced_suffix = ".replaced";

Path hidden_sibling(const Path& path, std::string_view suffix) {
  return path.parent_path() / fmt::format(".{}{}", path.filename().string(), suffix);
}

/// The path of which `hidden` is the hidden sibling.
Path sibling_of(const Path& hidden, std::string_view suffix) {
  const std::string name = hidden.filename().string();
  return hidden.parent_path() / name.substr(1, name.size() - 1 - suffix.size());
}

bool is_there(const Path& path) {
  std::error_code unknown;
  return fs::exists(fs::symlink_status(path, unknown));
}

void delete_tree(const Path& path) {
  std::error_code failed;
  do {
    fs::remove_all(path, failed);
  } while (failed == std::errc::interrupted);
  if (failed) throw_file_error(failed.value(), "delete", path);
}

void rename_folder(const Path& from, const Path& to, std::string_view doing) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_file_error(errno, doing, to);
}

/// The lock on a folder that is made: held by its maker as long as that lives.
class FolderLock {
 public:
  enum class State { held_here, held_elsewhere, gone };

  explicit FolderLock(const Path& path) {
    descriptor_ = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (descriptor_ < 0 && errno != ENOENT) throw_file_error(errno, "open the folder", path);
    if (descriptor_ < 0) return;
    // File systems without locks cannot tell, and a run folder has one writer.
    const bool taken = uninterrupted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0 || errno != EWOULDBLOCK;
    state_ = !taken ? State::held_elsewhere : names_it(path) ? State::held_here : State::gone;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  State state() const { return state_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  // It may have been deleted, and made anew, before the lock was taken.
  bool names_it(const Path& path) const {
    struct stat opened{}, named{};
    return ::fstat(descriptor_, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
  }

  int descriptor_ = -1;
  State state_ = State::gone;
};

/// Deletes a hidden folder unless a living process holds it; whether it is gone.
bool delete_if_dead(const Path& path) {
  const FolderLock lock(path);
  if (lock.state() == FolderLock::State::held_here) delete_tree(path);
  return lock.state() != FolderLock::State::held_elsewhere;
}

/// What was to be replaced gets its name back, or goes, when its place is taken. Nothing while a living process replaces it.
void settle_replaced(const Path& path) {
  const Path replaced = NewFolder::path_while_replaced(path);
  if (!is_there(replaced)) return;
  if (is_there(path)) return delete_tree(replaced);
  rename_folder(replaced, path, "name the folder");
  sync_folder(folder_of(path));
}

}  // namespace

NewFolder::NewFolder(Path path) : path_(std::move(path)), partial_(path_until_commit(path_)) {
  constexpr int attempts = 10;
  constexpr auto pause = std::chrono::milliseconds(10);
  for (int i = 1; !try_make(); ++i) {
    if (i == attempts) {
      throw UserError(fmt::format("{}: another process is writing this folder", path_.string()),
                      "wait for it, end it, or choose another folder for this run");
    }
    std::this_thread::sleep_for(pause);
  }
  settle_replaced(path_);
}

// Between mkdir() and the lock another process may take the folder for a dead one's and delete it: then it is made again.
bool NewFolder::try_make() {
  if (::mkdir(partial_.c_str(), 0777) != 0) {
    const int code = errno;
    if (code != EEXIST || !fs::is_directory(partial_)) throw_file_error(code, "make the folder", partial_);
    if (!delete_if_dead(partial_) || ::mkdir(partial_.c_str(), 0777) != 0) return false;
  }
  FolderLock lock(partial_);
  if (lock.state() != FolderLock::State::held_here) return false;
  lock_ = lock.release();
  return true;
}

Path NewFolder::path_until_commit(const Path& path) { return hidden_sibling(path, partial_suffix); }

Path NewFolder::path_while_replaced(const Path& path) { return hidden_sibling(path, replaced_suffix); }

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
  if (is_there(path_)) return replace();
  rename_folder(partial_, path_, "name the folder");
  committed_ = true;
  sync_folder(folder_of(path_));
}

// An exchange leaves the older folder under the partial name, where it is deleted now or as a dead one later.
void NewFolder::replace() {
  const bool exchanged = ::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0;
  const bool cannot = !exchanged && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP);
  if (!exchanged && !cannot) throw_file_error(errno, "name the folder", path_);
  const Path replaced = exchanged ? partial_ : path_while_replaced(path_);
  if (cannot) {
    rename_folder(path_, replaced, "name the folder");
    if (::rename(partial_.c_str(), path_.c_str()) != 0) {
      const int code = errno;
      ::rename(replaced.c_str(), path_.c_str());
      throw_file_error(code, "name the folder", path_);
    }
  }
  committed_ = true;
  sync_folder(folder_of(path_));
  delete_tree(replaced);
}

void settle_folders(const Path& parent) {
  std::error_code failed;
  std::vector<Path> partial, removed, replaced;
  for (const Path& path : entries_of(parent, failed)) {
    const std::string name = path.filename().string();
    if (!name.starts_with('.') || !fs::is_directory(fs::symlink_status(path))) continue;
    if (name.ends_with(partial_suffix)) partial.push_back(path);
    if (name.ends_with(removed_suffix)) removed.push_back(path);
    if (name.ends_with(replaced_suffix)) replaced.push_back(path);
  }
  for (const Path& path : replaced) {
    const Path name = sibling_of(path, replaced_suffix);
    const FolderLock maker(NewFolder::path_until_commit(name));
    if (maker.state() != FolderLock::State::held_elsewhere) settle_replaced(name);
  }
  for (const Path& path : partial) delete_if_dead(path);
  for (const Path& path : removed) delete_if_dead(path);
}

void remove_folder(const Path& path) {
  const Path removed = hidden_sibling(path, removed_suffix);
  delete_tree(removed);
  if (::rename(path.c_str(), removed.c_str()) != 0) throw_file_error(errno, "delete", path);
  delete_tree(removed);
}

}  // namespace lockstep::io
