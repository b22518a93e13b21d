#pragma once

// Files: read whole or mapped, written at offsets, replaced atomically. A failure that the user can mend is a UserError with the
// path, the reason and a remedy. Such are: missing, not permitted, read-only, full, over quota, a folder where a file belongs.
// Every other refusal of the system is a SystemError. Partial reads and writes and signals are dealt with here.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::io {

using Path = std::filesystem::path;

/// Throws the error of a failed call: "cannot `doing` `path`: reason of `code` (an errno)".
[[noreturn]] void throw_file_error(int code, std::string_view doing, const Path& path);

/// A source of a file's bytes, which are read by their place in it.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  /// Fills `out`; throws UserError when the file ends before.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Whether anything is at the path. Throws where that cannot be known, as in a folder that is closed to this user.
bool exists(const Path& path);
/// Whether it is a folder; throws as exists() does.
bool is_folder(const Path& path);
/// Why there is no folder, such as "there is no such folder" or "Permission denied"; empty where there is one.
std::string why_no_folder(const Path& path);
/// Whether the path is there and neither a regular file nor a folder: a pipe, a socket, a device.
bool is_special(const Path& path);

/// Throws what read_at() says of a file that ends at byte `end`, where `missing` bytes more were asked for.
[[noreturn]] void throw_cut_off(const Path& path, std::uint64_t end, std::size_t missing);

/// Throws UserError unless an open descriptor is that of a regular file. For a folder it is the error of EISDIR.
void demand_regular_file(int descriptor, std::string_view doing, const Path& path);

/// An open file; move-only. Positioned calls only, so several threads may use one File on ranges that do not overlap.
class File {
 public:
  static File open_to_read(const Path& path);   ///< throws, without waiting, for what is no regular file
  static File create(const Path& path);         ///< makes it or empties it
  static File open_to_write(const Path& path);  ///< one that exists, as it is
  File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();

  const Path& path() const { return path_; }
  std::uint64_t size() const;
  /// Fills `out`; throws UserError when the file ends before.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void resize(std::uint64_t size);
  /// Returns when the bytes are on the device.
  void sync();
  /// Returns when the bytes are on the device, without file attributes such as times.
  void sync_data();
  /// Closes and reports what a file system says only then; the destructor closes silently.
  void close();

 private:
  File(Path path, int flags, std::string_view doing);
  Path path_;
  int descriptor_ = -1;
};

/// A file that takes the place of `path` only at commit(); until then it is `<path>.partial`, removed when never committed.
class Replacement {
 public:
  explicit Replacement(Path path);
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement();

  File& file() { return file_; }
  /// Syncs the file, renames it and syncs its folder. Once; on failure the old file is untouched.
  void commit();

 private:
  Path path_;
  File file_;
  bool committed_ = false;
};

/// A file's bytes, read where they are asked for: a file that shrinks meanwhile gives an error.
class FileBytes final : public ByteSource {
 public:
  explicit FileBytes(const Path& path) : file_(File::open_to_read(path)), size_(file_.size()) {}
  std::uint64_t size() const override { return size_; }  ///< when it was opened
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override { file_.read_at(offset, out); }

 private:
  File file_;
  std::uint64_t size_;
};

/// A whole file mapped to read. The file must not shrink meanwhile: for files of the process's own.
class MappedFile final : public ByteSource {
 public:
  explicit MappedFile(Path path);
  MappedFile(MappedFile&& other) noexcept : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile() override;
  std::uint64_t size() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  std::span<const std::byte> bytes() const { return bytes_; }  ///< page-aligned; empty for an empty file

 private:
  Path path_;
  std::span<const std::byte> bytes_;
};

/// The whole file. A pipe or a device is waited for a while (io/stream.h) and gives at most 64 MiB; throws UserError for more.
std::string read_file(const Path& path);
/// A whole regular file of at most `most_bytes`. For anything else it throws UserError, before memory is taken and without
/// waiting.
std::string read_document(const Path& path, std::uint64_t most_bytes = std::uint64_t{1} << 40);
/// `content` takes the place of `path` at once or not at all, and lasts when this returns.
void replace_file(const Path& path, std::string_view content);
/// The folder that a path names something in: "." for a bare name.
Path folder_of(const Path& path);
/// The path from the root on, without ".." and without a slash at its end.
Path whole_path(const Path& path);
/// Makes a folder in one that is there; it lasts when this returns, and nothing happens when it exists.
void make_folder(const Path& path);
/// Makes a folder and the missing ones above it.
void make_folders(const Path& path);
/// Names in a folder are lasting only after this.
void sync_folder(const Path& path);

}  // namespace lockstep::io
