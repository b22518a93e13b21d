#pragma once

// The little of MPI that brings ranks together. One object in a process; used by its thread alone.

#include <cstddef>
#include <span>

namespace lockstep::comm {

class MpiLibrary {
 public:
  MpiLibrary();
  /// Leaves MPI, which waits for the others.
  ~MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Of all ranks, how many share memory with this one. Collective.
  int ranks_of_host() const;
  /// Rank 0's bytes on every rank.
  void broadcast(std::span<std::byte> bytes) const;
  /// One part of the same size from every rank.
  void all_gather(std::span<std::byte> out, std::span<const std::byte> part) const;
  /// Ends all processes of the job.
  [[noreturn]] void abort(int exit_code) const;

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace lockstep::comm
