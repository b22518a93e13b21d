#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "base/checked.h"
#include "base/error.h"
#include "base/units.h"
#include "io/interrupted.h"
#include "io/stream.h"

namespace lockstep::io {
namespace {

constexpr std::size_t largest_transfer = std::size_t{1} << 30;  // Linux moves at most 2 GiB a call

/// What the user can do about `code`; empty when that is nothing.
std::string_view remedy(int code) {
  switch (code) {
    case ENOENT:
      return "check the path; a folder is made before files are written into it";
    case EACCES:
    case EPERM:
      return "get the permission (ls -l shows who has it) or choose another path";
    case EROFS:
      return "the file system is mounted read-only: choose a folder elsewhere";
    case ENOSPC:
      return "free some space on this file system or choose a folder on another one";
    case EDQUOT:
      return "the disk quota is used up: delete files or choose a folder elsewhere";
    case EFBIG:
      return "the file is larger than allowed here: raise the limit (ulimit -f) or choose another file system";
    case EISDIR:
      return "name a file, not a folder";
    case ENOTDIR:
      return "a part of the path is a file, not a folder: choose another path";
    case ENAMETOOLONG:
      return "a name in the path is longer than the file system takes: choose a shorter one";
    case ELOOP:
      return "symbolic links in the path lead in a circle: choose another path";
    default:
      return "";
  }
}

// 0, or why the folder cannot be made.
int try_make_folder(const Path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) {
    sync_folder(folder_of(path));
    return 0;
  }
  const int code = errno;
  std::error_code unknown;
  if (code != EEXIST) return code;
  return std::filesystem::is_directory(path, unknown) ? 0 : ENOTDIR;  // another process made it, or the path ends in "/"
}

int try_make_folders(const Path& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return 0;
  if (path.has_parent_path() && path.parent_path() != path) {
    if (const int code = try_make_folders(path.parent_path())) return code;
  }
  return try_make_folder(path);
}

Path partial_name(Path path) { return path += ".partial"; }

std::filesystem::file_status status_of(const Path& path, std::error_code& error) {
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) error.clear();
  return status;
}

std::filesystem::file_status status_of(const Path& path) {
  std::error_code error;
  const std::filesystem::file_status status = status_of(path, error);
  if (error) throw_file_error(error.value(), "look at", path);
  return status;
}

std::string_view kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

Path folder_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

Path whole_path(const Path& path) {
  Path whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() || !whole.has_relative_path() ? whole : whole.parent_path();
}

void throw_file_error(int code, std::string_view doing, const Path& path) {
  const std::string message = fmt::format("cannot {} {}: {}", doing, path.string(), std::generic_category().message(code));
  if (remedy(code).empty()) throw SystemError(message);
  throw UserError(message, std::string(remedy(code)));
}

void demand_regular_file(int descriptor, std::string_view doing, const Path& path) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) throw_file_error(errno, doing, path);
  if (S_ISDIR(status.st_mode)) throw_file_error(EISDIR, doing, path);
  if (S_ISREG(status.st_mode)) return;
  throw UserError(
      fmt::format("cannot {} {}: it is {}, and must be a regular file", doing, path.string(), kind_of(status.st_mode)),
      doing == "read" ? "put what comes from there into a file, and name that" : "name a file, or move what is there away");
}

void throw_cut_off(const Path& path, std::uint64_t end, std::size_t missing) {
  throw UserError(fmt::format("{} ends at byte {}, {} bytes too soon", path.string(), end, missing),
                  "the file is cut off: copy or write it again");
}

File::File(Path path, int flags, std::string_view doing) : path_(std::move(path)) {
  descriptor_ = uninterrupted([&] { return ::open(path_.c_str(), flags | O_CLOEXEC, 0666); });
  if (descriptor_ < 0) throw_file_error(errno, doing, path_);
}

File File::open_to_read(const Path& path) {
  // O_NONBLOCK: opening a pipe would wait for one who writes. Regular files do not know it.
  File file(path, O_RDONLY | O_NONBLOCK, "read");
  demand_regular_file(file.descriptor_, "read", path);
  return file;
}

File File::open_to_write(const Path& path) { return {path, O_RDWR, "write"}; }

File File::create(const Path& path) { return {path, O_RDWR | O_CREAT | O_TRUNC, "write"}; }

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::uint64_t File::size() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) throw_file_error(errno, "ask the size of", path_);
  return static_cast<std::uint64_t>(status.st_size);
}

void File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const auto at = narrow<off_t>(offset);
    const ssize_t count =
        uninterrupted([&] { return ::pread(descriptor_, out.data(), std::min(out.size(), largest_transfer), at); });
    if (count < 0) throw_file_error(errno, "read", path_);
    if (count == 0) throw_cut_off(path_, offset, out.size());
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void File::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto at = narrow<off_t>(offset);
    const ssize_t count =
        uninterrupted([&] { return ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), largest_transfer), at); });
    if (count < 0) throw_file_error(errno, "write", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void File::resize(std::uint64_t size) {
  if (uninterrupted([&] { return ::ftruncate(descriptor_, narrow<off_t>(size)); }) != 0) throw_file_error(errno, "resize", path_);
}

void File::sync() {
  if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) throw_file_error(errno, "sync", path_);
}

void File::sync_data() {
  if (uninterrupted([&] { return ::fdatasync(descriptor_); }) != 0) throw_file_error(errno, "sync", path_);
}

void File::close() {
  // Linux frees the descriptor even when close() fails or is interrupted.
  if (descriptor_ >= 0 && ::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) throw_file_error(errno, "close", path_);
}

Replacement::Replacement(Path path) : path_(std::move(path)), file_(File::create(partial_name(path_))) {}

Replacement::~Replacement() {
  if (!committed_) ::unlink(file_.path().c_str());
}

void Replacement::commit() {
  ensure(!committed_, "a replacement is committed once");
  file_.sync();
  file_.close();
  if (::rename(file_.path().c_str(), path_.c_str()) != 0) throw_file_error(errno, "replace", path_);
  committed_ = true;
  sync_folder(folder_of(path_));
}

MappedFile::MappedFile(Path path) : path_(std::move(path)) {
  struct stat status{};
  const int descriptor = uninterrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
  if (descriptor < 0) throw_file_error(errno, "read", path_);
  int code = ::fstat(descriptor, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (code == 0 && status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
      code = errno;
    } else {
      bytes_ = {static_cast<const std::byte*>(memory), size};
    }
  }
  ::close(descriptor);
  if (code != 0) throw_file_error(code, "read", path_);
}

void MappedFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t there = offset < size() ? size() - offset : 0;
  if (there < out.size()) throw_cut_off(path_, size(), out.size() - there);
  std::copy_n(bytes_.begin() + narrow<std::ptrdiff_t>(offset), out.size(), out.begin());
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string read_file(const Path& path) {
  constexpr std::size_t most_of_a_pipe = std::size_t{64} << 20;
  const bool bounded = is_special(path);
  const std::unique_ptr<ByteStream> stream = open_stream(path);
  std::string content;
  for (std::size_t filled = 0;;) {
    // Not by the size that stat tells: pipes and /proc have none.
    if (content.size() - filled < 4096) content.resize(std::max<std::size_t>(2 * content.size(), 65536));
    const std::size_t count = stream->read(std::as_writable_bytes(std::span(content).subspan(filled)));
    filled += count;
    if (bounded && filled > most_of_a_pipe) {
      throw UserError(
          fmt::format("cannot read {}: it is no file and gives more than {}", path.string(), format_bytes(most_of_a_pipe)),
          "put what is needed of it into a file, and name that");
    }
    if (count > 0) continue;
    content.resize(filled);
    return content;
  }
}

std::string read_document(const Path& path, std::uint64_t most_bytes) {
  const File file = File::open_to_read(path);
  const std::uint64_t size = file.size();
  if (size > most_bytes) {
    throw UserError(fmt::format("{} has {}, but a file of its kind has at most {}", path.string(), format_bytes(size),
                                format_bytes(most_bytes)),
                    "this is not the file that its name says: copy or write it again");
  }
  std::string content(static_cast<std::size_t>(size), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(content)));
  return content;
}

bool exists(const Path& path) { return std::filesystem::exists(status_of(path)); }

bool is_folder(const Path& path) { return std::filesystem::is_directory(status_of(path)); }

std::string why_no_folder(const Path& path) {
  std::error_code error;
  const std::filesystem::file_status status = status_of(path, error);
  if (error) return error.message();
  if (std::filesystem::is_directory(status)) return "";
  return std::filesystem::exists(status) ? "it is no folder" : "there is no such folder";
}

bool is_special(const Path& path) {
  std::error_code unknown;
  const std::filesystem::file_status status = status_of(path, unknown);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) && !std::filesystem::is_directory(status);
}

void replace_file(const Path& path, std::string_view content) {
  Replacement replacement(path);
  replacement.file().write_at(0, std::as_bytes(std::span(content)));
  replacement.commit();
}

void make_folder(const Path& path) {
  if (const int code = try_make_folder(path)) throw_file_error(code, "make the folder", path);
}

void make_folders(const Path& path) {
  if (const int code = try_make_folders(path)) throw_file_error(code, "make the folder", path);
}

void sync_folder(const Path& path) {
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) throw_file_error(errno, "sync the folder", path);
  const int code = uninterrupted([&] { return ::fsync(descriptor); }) != 0 ? errno : 0;
  ::close(descriptor);
  if (code != 0 && code != EINVAL) throw_file_error(code, "sync the folder", path);  // EINVAL: this file system needs none
}

}  // namespace lockstep::io
