#pragma once

// A block of memory that processes of one host map. It is anonymous shared memory, reached through its owner's entry in /proc. So
// nothing is left behind however the processes end, and no file system's size limits it.

#include <cstddef>
#include <string>

namespace lockstep::comm {

class Segment {
 public:
  Segment() = default;
  /// Makes a new segment, zeroed. Throws SystemError when there is no memory for it.
  static Segment make(std::size_t bytes);
  /// Opens the segment that process `pid` of this host made as `descriptor`. Throws SystemError when it cannot be reached.
  static Segment open(int pid, int descriptor, std::size_t bytes);
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// The descriptor for open(); -1 where this segment was opened itself.
  int descriptor() const { return descriptor_; }
  /// Takes the memory from every process that has mapped it.
  void empty() noexcept;

 private:
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Whether a process of this host still runs; one that has ended and was not waited for does not.
bool is_alive(int pid);

}  // namespace lockstep::comm
