#pragma once

// Which cores a rank gets: those of a host are divided among its ranks, neighbours (that share caches and memory) together.

#include <filesystem>
#include <vector>

namespace lockstep {

/// The cores that the calling thread may use, in the order of the machine: neighbours beside each other.
std::vector<int> neighbouring_cores();
/// `cores` with neighbours beside each other, as the kernel's files below `system` tell it. Without these files the order stays.
std::vector<int> beside_each_other(const std::vector<int>& cores, const std::filesystem::path& system);
/// The part of `cores` of rank `rank` of `ranks`, contiguous and as even as possible; with more ranks than cores, all of them.
std::vector<int> share_of_cores(const std::vector<int>& cores, int rank, int ranks);

/// While it lives, the calling thread, and threads that it starts, run on these cores alone.
class ScopedCores {
 public:
  /// `cores` must not be empty.
  explicit ScopedCores(const std::vector<int>& cores);
  ~ScopedCores();
  ScopedCores(const ScopedCores&) = delete;
  ScopedCores& operator=(const ScopedCores&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace lockstep
