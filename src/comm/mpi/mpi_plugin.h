#pragma once

// MPI as a plugin of the program has it (io/plugin.h). One source, plugin/mpi.cpp, is compiled for each MPI that is installed,
// since Open MPI and MPICH agree on no binary interface. It calls nothing of the program, so that it is linked with MPI alone.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::comm {

/// Every function throws SystemError when MPI refuses. Used by the thread that called start().
class MpiPlugin {
 public:
  /// Messages under way; what is still under way at the end is left alone.
  class Messages {
   public:
    virtual ~Messages() = default;
    virtual void send(std::span<const std::byte> bytes, int to, int tag) = 0;
    virtual void receive(std::span<std::byte> bytes, int from, int tag) = 0;
    /// Whether all messages have ended. Moves them forward, and forgets them when they have.
    virtual bool done() = 0;
    /// Whether message number `message` has ended, in the order in which they were begun.
    virtual bool has_ended(std::size_t message) const = 0;
  };

  /// A file that MPI-IO reads.
  class File {
   public:
    virtual ~File() = default;
    virtual std::uint64_t size() const = 0;
    /// Reads into `out`. Returns how many bytes there were.
    virtual std::size_t read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
  };

  struct Place {
    int rank, size;
  };
  struct Host {
    int first;  ///< the least rank of those that share memory
    int ranks;
  };

  virtual ~MpiPlugin() = default;
  virtual Place start() = 0;
  virtual void finish() = 0;
  virtual Host host(int rank) = 0;
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  virtual void all_gather(std::byte* out, std::span<const std::byte> part) = 0;
  virtual void abort(int exit_code) = 0;
  virtual std::unique_ptr<Messages> messages() = 0;
  /// Null with an errno where there is no such file or it must not be read.
  virtual std::unique_ptr<File> open_file(const char* path, int& error) = 0;
};

}  // namespace lockstep::comm
