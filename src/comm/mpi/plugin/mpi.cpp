#include <mpi.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/mpi/mpi_plugin.h"

namespace lockstep::comm {
namespace {

void check(int code, const std::string& call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw SystemError(call + " failed: " + std::string(text.data(), static_cast<std::size_t>(length)));
}

int count_of(std::span<const std::byte> bytes) { return static_cast<int>(bytes.size()); }

class MpiMessages final : public MpiPlugin::Messages {
 public:
  void send(std::span<const std::byte> bytes, int to, int tag) override {
    check(MPI_Isend(bytes.data(), count_of(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  }

  void receive(std::span<std::byte> bytes, int from, int tag) override {
    check(
        MPI_Irecv(bytes.data(), count_of(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, &requests_.emplace_back(MPI_REQUEST_NULL)),
        "MPI_Irecv");
  }

  bool done() override {
    int all = 1;
    if (!requests_.empty())
      check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (all != 0) requests_.clear();
    return all != 0;
  }

  bool has_ended(std::size_t message) const override {
    int ended = 0;
    check(MPI_Request_get_status(requests_[message], &ended, MPI_STATUS_IGNORE), "MPI_Request_get_status");
    return ended != 0;
  }

 private:
  std::vector<MPI_Request> requests_;
};

class MpiFile final : public MpiPlugin::File {
 public:
  MpiFile(MPI_File file, std::string path) : file_(file), path_(std::move(path)) {}
  ~MpiFile() override { MPI_File_close(&file_); }
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;

  std::uint64_t size() const override {
    MPI_Offset size = 0;
    check(MPI_File_get_size(file_, &size), "MPI_File_get_size of " + path_);
    return static_cast<std::uint64_t>(size);
  }

  // Not MPI_File_iread_at: Open MPI 4.1 reports a full count for a read that the file's end cut short.
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    MPI_Status status;
    check(MPI_File_read_at(file_, static_cast<MPI_Offset>(offset), out.data(), count_of(out), MPI_BYTE, &status),
          "MPI_File_read_at of " + path_);
    int count = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }

 private:
  mutable MPI_File file_;
  std::string path_;
};

class Mpi final : public MpiPlugin {
 public:
  Place start() override {
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED) throw SystemError("this MPI cannot be used by a program with threads");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    Place place{};
    check(MPI_Comm_rank(MPI_COMM_WORLD, &place.rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &place.size), "MPI_Comm_size");
    return place;
  }

  void finish() override { MPI_Finalize(); }

  Host host(int rank) override {
    MPI_Comm host = MPI_COMM_NULL;
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    Host found{.first = rank, .ranks = 1};
    check(MPI_Comm_size(host, &found.ranks), "MPI_Comm_size");
    check(MPI_Bcast(&found.first, 1, MPI_INT, 0, host), "MPI_Bcast");
    MPI_Comm_free(&host);
    return found;
  }

  void broadcast(std::span<std::byte> bytes) override {
    check(MPI_Bcast(bytes.data(), count_of(bytes), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  }

  void all_gather(std::byte* out, std::span<const std::byte> part) override {
    check(MPI_Allgather(part.data(), count_of(part), MPI_BYTE, out, count_of(part), MPI_BYTE, MPI_COMM_WORLD), "MPI_Allgather");
  }

  void abort(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

  std::unique_ptr<Messages> messages() override { return std::make_unique<MpiMessages>(); }

  std::unique_ptr<File> open_file(const char* path, int& error) override {
    MPI_File file = MPI_FILE_NULL;
    const int code = MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (code == MPI_SUCCESS) return std::make_unique<MpiFile>(file, path);
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    error = kind == MPI_ERR_NO_SUCH_FILE ? ENOENT : kind == MPI_ERR_ACCESS ? EACCES : 0;
    if (error == 0) check(code, std::string("MPI_File_open of ") + path);
    return nullptr;
  }
};

}  // namespace
}  // namespace lockstep::comm

extern "C" void* LOCKSTEP_PLUGIN_ENTRY() {
  static lockstep::comm::Mpi mpi;
  return static_cast<lockstep::comm::MpiPlugin*>(&mpi);
}
