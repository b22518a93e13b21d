#include "faults/trace/tracee.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/file.h"

namespace lockstep::faults {
namespace {

constexpr int not_filtered = 125;  // exit code of a process that cannot set its filter

[[noreturn]] void refused(const char* what) {
  throw SystemError(fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

// Stops at calls of call_kinds(); a mmap() without a file goes on.
bool set_filter() {
  std::vector<sock_filter> program;
  const auto add = [&](std::uint16_t code, std::uint32_t value, std::uint8_t yes = 0, std::uint8_t no = 0) {
    program.push_back({code, yes, no, value});
  };
  add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
  add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const CallKind& kind : call_kinds()) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(kind.number), 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  }
  add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{static_cast<std::uint16_t>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

std::string link_of(const std::string& link) {
  std::error_code unknown;
  return std::filesystem::read_symlink(link, unknown).string();
}

}  // namespace

Started::Started(const Body& body, bool filtered) {
  gate_ = ::eventfd(0, EFD_CLOEXEC);
  if (gate_ < 0) refused("eventfd");
  process_ = ::fork();
  if (process_ < 0) refused("fork");
  if (process_ == 0) {
    ::setpgid(0, 0);
    eventfd_t open = 0;
    ::eventfd_read(gate_, &open);
    ::close(gate_);
    if (filtered && !set_filter()) ::_exit(not_filtered);
    ::_exit(body());
  }
  ::setpgid(process_, process_);  // whichever of the two comes first
}

Started::~Started() { go(); }

void Started::go() {
  if (gate_ < 0) return;
  ::eventfd_write(gate_, 1);
  ::close(std::exchange(gate_, -1));
}

AtCall::AtCall(pid_t thread) : thread_(thread) {
  // A thread that was killed meanwhile has none: then nothing of it counts.
  if (::ptrace(PTRACE_GETREGS, thread, nullptr, &registers_) != 0) registers_.orig_rax = ~0ULL;
}

std::uint64_t AtCall::argument(int index) const {
  const std::array<std::uint64_t, 6> all{registers_.rdi, registers_.rsi, registers_.rdx,
                                         registers_.r10, registers_.r8,  registers_.r9};
  return all.at(static_cast<std::size_t>(index));
}

void AtCall::set_argument(int index, std::uint64_t value) {
  const std::array<unsigned long long*, 6> all{&registers_.rdi, &registers_.rsi, &registers_.rdx,
                                               &registers_.r10, &registers_.r8,  &registers_.r9};
  *all.at(static_cast<std::size_t>(index)) = value;
  store();
}

void AtCall::refuse(int error) {
  registers_.orig_rax = ~0ULL;
  set_result(-error);
}

void AtCall::set_result(std::int64_t result) {
  registers_.rax = static_cast<std::uint64_t>(result);
  store();
}

void AtCall::store() { ::ptrace(PTRACE_SETREGS, thread_, nullptr, &registers_); }

std::string AtCall::text_at(std::uint64_t address) const {
  std::string text;
  constexpr std::size_t page = 4096;
  std::array<char, page> piece{};
  while (text.size() < 2 * page) {
    const std::size_t wanted = page - address % page;  // no further than what is mapped for certain
    iovec here{piece.data(), wanted};
    iovec there{reinterpret_cast<void*>(address), wanted};  // NOLINT(performance-no-int-to-ptr): it is the other process's
    const ssize_t count = ::process_vm_readv(thread_, &here, 1, &there, 1, 0);
    if (count <= 0) return text;
    const std::string_view read(piece.data(), static_cast<std::size_t>(count));
    text += read.substr(0, read.find('\0'));
    if (read.find('\0') != read.npos) return text;
    address += static_cast<std::uint64_t>(count);
  }
  return text;
}

Path AtCall::path_of(int descriptor, int path) const {
  const std::string process = fmt::format("/proc/{}", thread_);
  const Path named = path >= 0 ? Path(text_at(argument(path))) : Path();
  if (named.is_absolute()) return named.lexically_normal();
  const int number = descriptor >= 0 ? static_cast<int>(argument(descriptor)) : AT_FDCWD;
  const Path start = link_of(number == AT_FDCWD ? process + "/cwd" : fmt::format("{}/fd/{}", process, number));
  return path >= 0 ? (start / named).lexically_normal() : start;
}

Call AtCall::describe(const CallKind& kind) const {
  Call call{.kind = &kind, .path = {}, .to = {}};
  if (kind.descriptor >= 0 || kind.path >= 0) call.path = path_of(kind.descriptor, kind.path);
  if (kind.to >= 0) call.to = path_of(kind.to_descriptor, kind.to);
  if (kind.flags >= 0) call.flags = argument(kind.flags);
  if (kind.length >= 0) call.length = argument(kind.length);
  return call;
}

std::string AtCall::content(const Call& call) const {
  const bool by_path = call.kind->path >= 0;
  return io::read_file(by_path ? call.path : Path(fmt::format("/proc/{}/fd/{}", thread_, argument(call.kind->descriptor))));
}

}  // namespace lockstep::faults
