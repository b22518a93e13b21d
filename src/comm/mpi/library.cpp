#include "comm/mpi/library.h"

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace lockstep::comm {
namespace {

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw SystemError(fmt::format("{} failed: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

int count_of(std::span<const std::byte> bytes) { return static_cast<int>(bytes.size()); }

}  // namespace

MpiLibrary::MpiLibrary() {
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED) throw SystemError("this MPI cannot be used by a program with threads");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

MpiLibrary::~MpiLibrary() { MPI_Finalize(); }

int MpiLibrary::ranks_of_host() const {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  int size = 0;
  check(MPI_Comm_size(host, &size), "MPI_Comm_size");
  MPI_Comm_free(&host);
  return size;
}

void MpiLibrary::broadcast(std::span<std::byte> bytes) const {
  check(MPI_Bcast(bytes.data(), count_of(bytes), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
}

void MpiLibrary::all_gather(std::span<std::byte> out, std::span<const std::byte> part) const {
  ensure(out.size() == part.size() * static_cast<std::size_t>(size_), "one part from every rank");
  check(MPI_Allgather(part.data(), count_of(part), MPI_BYTE, out.data(), count_of(part), MPI_BYTE, MPI_COMM_WORLD),
        "MPI_Allgather");
}

void MpiLibrary::abort(int exit_code) const {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace lockstep::comm
