#include "comm/mpi/library.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "comm/mpi/watchdog.h"

namespace lockstep::comm {
namespace {

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw SystemError(fmt::format("{} failed: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

// Of one message. A larger one would not be sent before the receiver has answered (Open MPI over TCP: 64 KiB with their head),
// and a rank that computes answers late.
constexpr std::size_t most_bytes = 64000;

int count_of(std::span<const std::byte> bytes) { return static_cast<int>(bytes.size()); }

class MpiFile final : public io::ByteSource {
 public:
  explicit MpiFile(io::Path path) : path_(std::move(path)) {
    const int code = MPI_File_open(MPI_COMM_SELF, path_.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &file_);
    if (code == MPI_SUCCESS) return;
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_NO_SUCH_FILE) io::throw_file_error(ENOENT, "read", path_);
    if (kind == MPI_ERR_ACCESS) io::throw_file_error(EACCES, "read", path_);
    check_file(code, "MPI_File_open");
  }
  ~MpiFile() override { MPI_File_close(&file_); }
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;

  std::uint64_t size() const override {
    MPI_Offset size = 0;
    check_file(MPI_File_get_size(file_, &size), "MPI_File_get_size");
    return narrow<std::uint64_t>(size);
  }
  // Not MPI_File_iread_at: Open MPI 4.1 reports a full count for a read that the file's end cut short.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const auto piece = out.first(std::min(most_bytes, out.size()));
      MPI_Status status;
      check_file(MPI_File_read_at(file_, narrow<MPI_Offset>(offset), piece.data(), count_of(piece), MPI_BYTE, &status),
                 "MPI_File_read_at");
      int count = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
      if (count <= 0) io::throw_cut_off(path_, offset, out.size());
      out = out.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  }

 private:
  void check_file(int code, std::string_view call) const { check(code, fmt::format("{} of {}", call, path_.string())); }

  io::Path path_;
  MPI_File file_ = MPI_FILE_NULL;
};

/// None where no thread is left for it.
std::unique_ptr<Watchdog> watch(double seconds, std::string says, int exit_code) {
  try {
    return std::make_unique<Watchdog>(seconds, std::move(says), exit_code);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

MpiLibrary::MpiLibrary(double timeout) : timeout_(timeout) {
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED) throw SystemError("this MPI cannot be used by a program with threads");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

MpiLibrary::~MpiLibrary() {
  const auto deadline = watch(timeout_, nobody_came(fmt::format("rank {}: the end of MPI", rank_), timeout_), 1);
  MPI_Finalize();
}

MpiLibrary::Host MpiLibrary::host() const {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  Host found{.first = rank_, .ranks = 1};
  check(MPI_Comm_size(host, &found.ranks), "MPI_Comm_size");
  check(MPI_Bcast(&found.first, 1, MPI_INT, 0, host), "MPI_Bcast");
  MPI_Comm_free(&host);
  return found;
}

void MpiLibrary::broadcast(std::span<std::byte> bytes) const {
  check(MPI_Bcast(bytes.data(), count_of(bytes), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
}

void MpiLibrary::all_gather(std::span<std::byte> out, std::span<const std::byte> part) const {
  ensure(out.size() == part.size() * static_cast<std::size_t>(size_), "one part from every rank");
  check(MPI_Allgather(part.data(), count_of(part), MPI_BYTE, out.data(), count_of(part), MPI_BYTE, MPI_COMM_WORLD),
        "MPI_Allgather");
}

void MpiLibrary::abort(int exit_code, double seconds) const {
  const auto deadline = watch(seconds, "", exit_code);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

std::unique_ptr<io::ByteSource> open_mpi_file(const io::Path& path) { return std::make_unique<MpiFile>(path); }

struct Transfers::State {
  std::vector<MPI_Request> requests;
  std::vector<int> others;  // of each
};

Transfers::Transfers() : state_(std::make_unique<State>()) {}
Transfers::~Transfers() = default;
Transfers::Transfers(Transfers&& other) noexcept = default;
Transfers& Transfers::operator=(Transfers&& other) noexcept = default;

void Transfers::send(std::span<const std::byte> bytes, int to, int tag) {
  for (std::size_t at = 0; at < bytes.size(); at += most_bytes) {
    const auto piece = bytes.subspan(at, std::min(most_bytes, bytes.size() - at));
    MPI_Request& request = state_->requests.emplace_back(MPI_REQUEST_NULL);
    state_->others.push_back(to);
    check(MPI_Isend(piece.data(), count_of(piece), MPI_BYTE, to, tag, MPI_COMM_WORLD, &request), "MPI_Isend");
  }
}

void Transfers::receive(std::span<std::byte> bytes, int from, int tag) {
  for (std::size_t at = 0; at < bytes.size(); at += most_bytes) {
    const auto piece = bytes.subspan(at, std::min(most_bytes, bytes.size() - at));
    MPI_Request& request = state_->requests.emplace_back(MPI_REQUEST_NULL);
    state_->others.push_back(from);
    check(MPI_Irecv(piece.data(), count_of(piece), MPI_BYTE, from, tag, MPI_COMM_WORLD, &request), "MPI_Irecv");
  }
}

bool Transfers::done() {
  int all = 1;
  const int count = static_cast<int>(state_->requests.size());
  if (count > 0) check(MPI_Testall(count, state_->requests.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (all != 0) {
    state_->requests.clear();
    state_->others.clear();
  }
  return all != 0;
}

std::vector<int> Transfers::under_way() const {
  std::set<int> ranks;
  for (std::size_t i = 0; i < state_->requests.size(); ++i) {
    int ended = 0;
    check(MPI_Request_get_status(state_->requests[i], &ended, MPI_STATUS_IGNORE), "MPI_Request_get_status");
    if (ended == 0) ranks.insert(state_->others[i]);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace lockstep::comm
