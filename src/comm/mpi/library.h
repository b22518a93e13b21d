#pragma once

// The part of MPI that is needed. A process has one library object, which its thread alone uses.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "comm/mpi/mpi_plugin.h"
#include "io/file.h"

namespace lockstep::comm {

class MpiLibrary {
 public:
  /// Throws UserError when the plugin for the MPI of this job, or its library, is not there.
  explicit MpiLibrary(double timeout);
  /// Leaves MPI, which waits for the other ranks. When they do not come within `timeout` seconds, the process ends.
  ~MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The ranks that share memory with this one. Collective.
  using Host = MpiPlugin::Host;
  Host host() const;
  /// Gives every rank rank 0's bytes.
  void broadcast(std::span<std::byte> bytes) const;
  /// Gives every rank the parts of all ranks, all of one size.
  void all_gather(std::span<std::byte> out, std::span<const std::byte> part) const;
  /// Ends all processes of the job. This one ends by itself where the launcher has not done so after `seconds`.
  [[noreturn]] void abort(int exit_code, double seconds) const;

 private:
  double timeout_;
  int rank_ = 0, size_ = 1;
};

/// One value from every rank, by rank.
template <class T>
std::vector<T> from_all(const MpiLibrary& mpi, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(mpi.size()));
  mpi.all_gather(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(&mine, 1)));
  return all;
}

/// A file that MPI-IO reads, opened by this rank alone: closing it together would make a rank that fails wait for the others.
/// Used by the library's thread while the library lives. Throws UserError when there is no such file or it must not be read.
std::unique_ptr<io::ByteSource> open_mpi_file(const io::Path& path);

/// The bytes of a value that is sent as it lies in memory.
template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Messages under way between this rank and others, of any size. Messages of one tag between two ranks arrive in the order they
/// were sent. Their bytes stay untouched until done() says so.
class Transfers {
 public:
  Transfers();
  /// Leaves messages still under way alone: only before the job is ended.
  ~Transfers();
  Transfers(Transfers&& other) noexcept;
  Transfers& operator=(Transfers&& other) noexcept;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(std::span<const std::byte> bytes, int to, int tag);
  void receive(std::span<std::byte> bytes, int from, int tag);
  /// Whether all messages have ended. Moves them forward.
  bool done();
  /// The ranks of the world that messages still under way go to or come from, once each, in their order.
  std::vector<int> under_way() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::comm
