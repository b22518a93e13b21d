#include "faults/trace/call.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::faults {
namespace {

const std::vector<int> open_errors{EACCES, EMFILE, EINTR, EIO, ENOSPC};
const std::vector<int> write_errors{ENOSPC, EIO, EINTR};
const std::vector<int> sync_errors{EIO, ENOSPC, EINTR};
const std::vector<int> name_errors{EACCES, EIO, ENOSPC};
const std::vector<int> removal_errors{EACCES, EIO};

// The C library has more than one call for the same: all of them are here, so that none passes by unseen.
const std::vector<CallKind> kinds{
    {.name = "open", .number = SYS_open, .path = 0, .flags = 1, .errors = open_errors},
    {.name = "openat", .number = SYS_openat, .descriptor = 0, .path = 1, .flags = 2, .errors = open_errors},
    {.name = "write", .number = SYS_write, .descriptor = 0, .length = 2, .changes_data = true, .errors = write_errors},
    {.name = "pwrite64", .number = SYS_pwrite64, .descriptor = 0, .length = 2, .changes_data = true, .errors = write_errors},
    {.name = "writev", .number = SYS_writev, .descriptor = 0, .length = 2, .changes_data = true, .errors = write_errors},
    {.name = "copy_file_range",
     .number = SYS_copy_file_range,
     .descriptor = 2,
     .length = 4,
     .changes_data = true,
     .errors = write_errors},
    {.name = "sendfile", .number = SYS_sendfile, .descriptor = 0, .length = 3, .changes_data = true, .errors = write_errors},
    {.name = "ftruncate", .number = SYS_ftruncate, .descriptor = 0, .changes_data = true, .errors = write_errors},
    {.name = "truncate", .number = SYS_truncate, .path = 0, .changes_data = true, .errors = write_errors},
    {.name = "fallocate", .number = SYS_fallocate, .descriptor = 0, .changes_data = true, .errors = write_errors},
    {.name = "fsync", .number = SYS_fsync, .descriptor = 0, .errors = sync_errors},
    {.name = "fdatasync", .number = SYS_fdatasync, .descriptor = 0, .errors = sync_errors},
    {.name = "close", .number = SYS_close, .descriptor = 0, .errors = sync_errors},
    {.name = "flock", .number = SYS_flock, .descriptor = 0, .errors = {EINTR, EIO}},
    {.name = "mmap", .number = SYS_mmap, .descriptor = 4, .errors = {EACCES, EMFILE}},
    {.name = "rename", .number = SYS_rename, .path = 0, .to = 1, .errors = name_errors},
    {.name = "renameat", .number = SYS_renameat, .descriptor = 0, .path = 1, .to_descriptor = 2, .to = 3, .errors = name_errors},
    {.name = "renameat2",
     .number = SYS_renameat2,
     .descriptor = 0,
     .path = 1,
     .to_descriptor = 2,
     .to = 3,
     .flags = 4,
     .errors = {EINVAL, EACCES, EIO, ENOSPC}},
    {.name = "link", .number = SYS_link, .path = 0, .to = 1, .errors = name_errors},
    {.name = "linkat", .number = SYS_linkat, .descriptor = 0, .path = 1, .to_descriptor = 2, .to = 3, .errors = name_errors},
    {.name = "unlink", .number = SYS_unlink, .path = 0, .errors = removal_errors},
    {.name = "unlinkat", .number = SYS_unlinkat, .descriptor = 0, .path = 1, .flags = 2, .errors = removal_errors},
    {.name = "rmdir", .number = SYS_rmdir, .path = 0, .errors = removal_errors},
    {.name = "mkdir", .number = SYS_mkdir, .path = 0, .errors = name_errors},
    {.name = "mkdirat", .number = SYS_mkdirat, .descriptor = 0, .path = 1, .errors = name_errors},
    {.name = "io_uring_enter", .number = SYS_io_uring_enter, .errors = {EINTR, EIO}},
};

}  // namespace

std::span<const CallKind> call_kinds() { return kinds; }

const CallKind* find_kind(long number) {
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const CallKind& kind) { return kind.number == number; });
  return found == kinds.end() ? nullptr : &*found;
}

std::string Call::text(const Path& root) const {
  const auto shown = [&](const Path& one) {
    const std::string below = one.lexically_relative(root).string();
    return below.starts_with("..") || below.empty() ? one.string() : below;
  };
  return fmt::format("{} {}{}", kind->name, shown(path), to.empty() ? "" : " to " + shown(to));
}

}  // namespace lockstep::faults
