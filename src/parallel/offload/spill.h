#pragma once

// What a rank keeps elsewhere between its uses (ZeRO-Infinity: Rajbhandari et al. 2021). Flat tensors are declared by name first,
// as memory is in an arena. Then they lie in one file on a disk, or in the host's memory. They are moved in ranges. Each range
// has a checksum from when it is written until it is read.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/span_log.h"
#include "device/stream.h"
#include "io/spill_file.h"
#include "layout/parallel_plan.h"
#include "layout/range.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// How things are offloaded; none of it changes a bit.
struct OffloadOptions {
  io::Path folder = ".";                  ///< where the file lies
  std::int64_t range_elements = 1 << 20;  ///< moved at a time; rounded down to whole pieces, at least one
  io::SpillWays ways = {};

  /// Ranges end in whole blocks of the file, whatever their type.
  static constexpr std::int64_t piece = static_cast<std::int64_t>(io::SpillFile::block) / 2;
  std::int64_t range() const { return std::max(piece, range_elements / piece * piece); }
};

/// What was moved, and for how long the program stood still for it.
struct SpillTraffic {
  std::int64_t read = 0, written = 0;  ///< bytes
  double waited = 0;                   ///< seconds
  friend SpillTraffic operator-(const SpillTraffic& a, const SpillTraffic& b) {
    return {a.read - b.read, a.written - b.written, a.waited - b.waited};
  }
};

class Spill {
 public:
  static constexpr std::int64_t block = static_cast<std::int64_t>(io::SpillFile::block);

  /// A flat tensor that is to lie elsewhere.
  struct Needs {
    layout::Tier tier = layout::Tier::disk;  ///< host or disk
    std::string what;                        ///< "master weights"
    std::string of;                          ///< "h.3"
    std::int64_t first = 0;                  ///< the number of its first element in what it is of, for messages
    std::int64_t elements = 0;
    DType type = DType::f32;
    std::int64_t range = 0;  ///< elements of a range: OffloadOptions::range(), or all of them
  };
  /// Returns the tensor's number. Called before open().
  int declare(const Needs& needs);
  /// Whether something lies elsewhere.
  bool used() const { return !tensors_.empty(); }
  /// Bytes of all tensors, or of those that are called `what`.
  std::int64_t bytes() const { return bytes_[0] + bytes_[1]; }
  std::int64_t bytes_of(std::string_view what) const;
  /// Declares the host's memory for the tensors that lie there. Called when all tensors are declared.
  void declare_host(Arena& pinned);

  /// Makes the file, where a tensor lies in one; all tensors are zero. Called once, when memory is committed. Throws UserError
  /// where the disk refuses.
  void open(const OffloadOptions& options, Stream& stream);
  /// "1.5 GiB in a file in /nvme, by io_uring with O_DIRECT"; after open().
  std::string description() const;
  /// Moves to and from the file are told to `spans` from now on. It outlives this.
  void observe(SpanLog& spans) { spans_ = &spans; }

  /// The whole ranges of tensor `number` that have `elements` of it.
  layout::Range cover(int number, const layout::Range& elements) const;
  /// Bytes of memory that `elements` of a type take when they are moved: whole blocks.
  static std::int64_t bytes_of(std::int64_t elements, DType type) {
    return (elements * static_cast<std::int64_t>(size_of(type)) + block - 1) / block * block;
  }
  /// Declares memory to move `bytes` to and from.
  static void declare(Arena& arena, Mirror& out, std::string name, std::int64_t bytes);
  /// The `bytes` from byte `first` on of memory that declare() declared and that is committed.
  static Mirror part(const Mirror& declared, std::int64_t first, std::int64_t bytes);

  /// A move of a tensor's ranges that is under way, or none.
  struct Move {
    int number = -1;
    layout::Range elements;
    Mirror memory;
    bool writes = false, under_way = false;
    std::optional<int> in_file;  ///< none: nothing was ever written, or it lies in the host's memory
    double begun = 0;            ///< now_seconds(), where moves are told of
  };
  /// These begin to move whole ranges of a tensor. `memory` has bytes_of() their elements, and is left alone until finish().
  Move read(int number, const layout::Range& elements, const Mirror& memory);
  Move write(int number, const layout::Range& elements, const Mirror& memory);
  /// Waits until the move is done; does nothing when it is already. Throws SystemError when what is read is not what was written.
  void finish(Move& move);
  /// As finish(), where an exception is on its way already: throws nothing.
  void abandon(Move& move) noexcept;

  const SpillTraffic& traffic() const { return traffic_; }

 private:
  struct Placed : Needs {
    std::int64_t offset = 0;
    std::vector<std::optional<std::uint64_t>> checks = {};  ///< by range; none: never written, zero
    std::size_t range_of(std::int64_t element) const { return static_cast<std::size_t>(element / range); }
  };
  bool on_disk(const Placed& tensor) const { return tensor.tier == layout::Tier::disk; }
  Move begin(int number, const layout::Range& elements, const Mirror& memory, bool writes);
  Tensor in_host(const Move& move) const;
  /// Calls check(range, its checksum in the move's memory) for each range of a move.
  template <class Check>
  void for_each_range(const Move& move, const Check& check);

  std::vector<Placed> tensors_;
  std::int64_t bytes_[2] = {};  ///< on a disk, in the host's memory
  Tensor kept_;                 ///< u8: the tensors in the host's memory
  OffloadOptions options_;
  Stream* stream_ = nullptr;
  std::optional<io::SpillFile> file_;
  SpillTraffic traffic_;
  SpanLog* spans_ = nullptr;
};

/// `count` elements of `type` from byte `first` on of u8 memory.
Tensor typed(const Tensor& bytes, std::int64_t first, std::int64_t count, DType type);

}  // namespace lockstep::parallel
