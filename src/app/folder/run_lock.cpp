#include "app/folder/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "app/cli/process.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread.h"
#include "base/timer.h"
#include "io/file.h"
#include "io/interrupted.h"

namespace lockstep::app {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t record_bytes = 1024;  // always as many, so that a renewal is one write

struct Owner {
  std::string host, process_space;
  std::int64_t process = 0, time = 0;
  std::string mark() const { return fmt::format("{} {} {}", host, process_space, process); }
};

// Numbers of processes mean something to those that share it: a host, or a container.
std::string process_space() {
  std::error_code unknown;
  return fs::read_symlink("/proc/self/ns/pid", unknown).string();
}

std::string record_text(std::int64_t time) {
  const Json json(Json::Object{{"host", host_name()},
                               {"process_space", process_space()},
                               {"process", static_cast<std::int64_t>(::getpid())},
                               {"time", time}});
  std::string text = json.dump();
  text.resize(record_bytes - 1, ' ');
  return text + "\n";
}

// Nothing where the file is not there; a file that says nothing yet is as old as its last change.
std::optional<Owner> read_owner(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  try {
    const Json json = Json::parse(io::read_document(path), path.string());
    return Owner{json.at("host").string(), json.at("process_space").string(), json.at("process").integer(),
                 json.at("time").integer()};
  } catch (const std::exception&) {
    return Owner{"unknown", "", 0, static_cast<std::int64_t>(status.st_mtime)};
  }
}

std::string name_of(const Owner& owner) {
  return owner.process == 0 ? "a process that has not said its name" : fmt::format("process {} on {}", owner.process, owner.host);
}

Owner this_process() { return {host_name(), process_space(), static_cast<std::int64_t>(::getpid()), 0}; }

/// Its process was on this host, and is no more.
bool has_ended(const Owner& owner) {
  const bool neighbour = owner.process > 0 && owner.host == host_name() && owner.process_space == process_space();
  return neighbour && ::kill(static_cast<pid_t>(owner.process), 0) != 0 && errno == ESRCH;
}

bool is_dead(const Owner& owner, std::int64_t now, std::int64_t dead_after) {
  return now - owner.time > dead_after || has_ended(owner);
}

bool has_no_locks(int code) { return code == ENOLCK || code == ENOSYS || code == EOPNOTSUPP; }

}  // namespace

int take_flock(int descriptor) {
  return io::uninterrupted([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); });
}

RunLock::RunLock(io::Path folder, LockSystem system, const LockKind& kind)
    : kind_(kind), folder_(std::move(folder)), path_(folder_ / kind_.file), system_(std::move(system)) {
  made_folder_ = !io::exists(folder_);
  io::make_folders(folder_);
  acquire();
}

// A file whose owner removed it between our open() and our lock is no lock any more.
void RunLock::acquire() {
  constexpr int attempts = 10;
  for (int i = 0; i < attempts; ++i) {
    if (try_acquire()) return;
  }
  refuse();
}

void RunLock::refuse() const {
  const std::optional<Owner> owner = read_owner(path_);
  throw UserError(fmt::format("{}: another {} is writing into this folder ({})", folder_.string(), kind_.owner,
                              owner ? name_of(*owner) : "it has ended by now"),
                  std::string(kind_.remedy));
}

bool RunLock::try_acquire() {
  constexpr int flags = O_RDWR | O_CLOEXEC;
  const auto open = [&](int more) { return io::uninterrupted([&] { return ::open(path_.c_str(), flags | more, 0666); }); };
  descriptor_ = open(O_CREAT | O_EXCL);
  const bool made = descriptor_ >= 0;
  if (!made && errno == EEXIST) descriptor_ = open(0);
  if (descriptor_ < 0 && errno == ENOENT) return false;
  if (descriptor_ < 0) io::throw_file_error(errno, "lock", path_);
  const auto leave = [&] { ::close(std::exchange(descriptor_, -1)); };
  const int code = system_.lock(descriptor_) == 0 ? 0 : errno;
  if (code != 0 && !has_no_locks(code)) {
    leave();
    if (code == EWOULDBLOCK) refuse();
    io::throw_file_error(code, "lock", path_);
  }
  if (code != 0 && !made) {
    leave();
    const std::optional<Owner> owner = read_owner(path_);
    if (owner && !is_dead(*owner, system_.now(), system_.dead_after)) refuse();
    if (owner) warning_ = fmt::format("{}: taking over the lock that {} has left behind", folder_.string(), name_of(*owner));
    ::unlink(path_.c_str());
    return false;
  }
  if (!ours()) {
    leave();
    return false;
  }
  try {
    write_record();
  } catch (...) {  // such as a disk that is full
    give_back();
    throw;
  }
  if (code != 0) renewal_ = start_thread("run-lock", [this](const std::stop_token& stop) { renew(stop); });
  return true;
}

RunLock::~RunLock() {
  stop_renewal();
  give_back();
}

void RunLock::stop_renewal() {
  if (!renewal_.joinable()) return;
  renewal_.request_stop();
  renewal_.join();
}

void RunLock::give_back() {
  if (ours()) {
    ::unlink(path_.c_str());
    if (made_folder_) ::rmdir(folder_.c_str());  // does nothing where the run has written
  }
  ::close(descriptor_);
}

bool RunLock::ours() const {
  struct stat opened{}, named{};
  return ::fstat(descriptor_, &opened) == 0 && ::stat(path_.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

std::string RunLock::mark() { return this_process().mark(); }

std::string RunLock::demand() {
  if (ours()) return {};
  if (const std::optional<Owner> owner = read_owner(path_)) {
    throw UserError(fmt::format("{}: {} has taken the run over while this one was stopped", folder_.string(), name_of(*owner)),
                    "let the other run go on; what this one had saved before is kept");
  }
  stop_renewal();
  ::close(std::exchange(descriptor_, -1));
  acquire();
  return fmt::format("{} was deleted while the run went on; it is there again", path_.string());
}

void RunLock::write_record() {
  const std::string text = record_text(system_.now());
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = io::uninterrupted(
        [&] { return ::pwrite(descriptor_, text.data() + done, text.size() - done, static_cast<off_t>(done)); });
    if (count < 0) io::throw_file_error(errno, "write", path_);
    done += static_cast<std::size_t>(count);
  }
  if (io::uninterrupted([&] { return ::fsync(descriptor_); }) != 0)
    io::throw_file_error(errno, "sync", path_);  // for other hosts
}

// A renewal that fails is tried again at the next one.
void RunLock::renew(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, stop, std::chrono::duration<double>(system_.renewed_every), [] { return false; })) {
    if (stop.stop_requested()) return;
    const std::string text = record_text(system_.now());
    if (::pwrite(descriptor_, text.data(), text.size(), 0) < 0) continue;
  }
}

bool is_written(const io::Path& folder) {
  const std::optional<Owner> owner = read_owner(folder / LockKind{}.file);
  return owner && !has_ended(*owner);
}

void demand_lock(const io::Path& folder, const std::string& mark, double seconds) {
  const fs::path path = folder / "run.lock";
  for (const double since = now_seconds();;) {
    const std::optional<Owner> owner = read_owner(path);
    if (owner && owner->mark() == mark) return;
    if (now_seconds() - since > seconds) {
      throw UserError(fmt::format("{}: on {} this is not the folder that rank 0 writes into: {}", folder.string(), host_name(),
                                  owner ? fmt::format("{} has its lock", name_of(*owner)) : "its lock is not there"),
                      "give a folder of a file system that all hosts share: log.dir=...");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace lockstep::app
