#pragma once

// The system calls that make and change files: which there are, what each is about, and how it may fail.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::faults {

using Path = std::filesystem::path;

/// A kind of call. Arguments are counted from 0; -1: it has none.
struct CallKind {
  std::string_view name;
  long number;             ///< as the kernel knows it
  int descriptor = -1;     ///< of the file, or of the folder that `path` starts from
  int path = -1;           ///< a text
  int to_descriptor = -1;  ///< of the folder that `to` starts from
  int to = -1;             ///< a text: the new name
  int length = -1;         ///< bytes to write, or pieces of writev()
  int flags = -1;
  bool changes_data = false;     ///< whether it changes a file's data
  std::vector<int> errors = {};  ///< what it may fail with
};

std::span<const CallKind> call_kinds();
/// The kind with this number; nullptr: there is none.
const CallKind* find_kind(long number);

/// A call that a program made on the watched folder.
struct Call {
  const CallKind* kind = nullptr;
  Path path;  ///< absolute; what the call names, or what its descriptor stands for
  Path to;    ///< a rename's or a link's new name
  std::uint64_t flags = 0;
  std::uint64_t length = 0;
  // When the calls are recorded, of those that the kernel was asked:
  std::int64_t result = 0;
  bool folder = false;       ///< `path` is one
  std::string content = {};  ///< of the file after the call, where that changes it

  /// "pwrite64 run/metrics.jsonl"; paths below `root` are shortened.
  std::string text(const Path& root) const;
};

}  // namespace lockstep::faults
