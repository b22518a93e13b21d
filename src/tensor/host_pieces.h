#pragma once

// Brings a device's tensors to the host and back, a piece at a time, through a buffer of pinned memory. Files and hashes read
// tensors this way. Where the device's memory is the host's, there is no buffer, and a tensor is one piece that stays in its
// place.

#include <algorithm>
#include <cstdint>

#include "device/device.h"
#include "device/stream.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace lockstep {

class HostPieces {
 public:
  static constexpr std::int64_t buffer_bytes = std::int64_t{16} << 20;

  /// The buffer for tensors on `device`, where they need one; `pinned` is committed to pinned memory.
  static void declare(Arena& pinned, Tensor& buffer, Device device);
  /// For tensors on the device that `buffer` was declared for. Copies go on `stream`. Both outlive this object.
  HostPieces(Stream& stream, const Tensor& buffer) : stream_(stream), buffer_(buffer) {}

  /// Whether pieces lie in the buffer, each until the next one comes.
  bool apart() const { return buffer_.shape.rank() > 0; }
  /// Calls use(piece, first) for elements [first, first + piece.elements()) of a flat tensor, from the first to the last.
  template <class Use>
  void read(const Tensor& values, const Use& use) const {
    for_each(values, false, use);
  }
  /// Calls use(piece, first) for every piece, as above; use changes the elements, which go back to the device behind it.
  template <class Use>
  void change(const Tensor& values, const Use& use) const {
    for_each(values, true, use);
  }

 private:
  template <class Use>
  void for_each(const Tensor& values, bool changes, const Use& use) const {
    const std::int64_t most = apart() ? buffer_bytes / static_cast<std::int64_t>(size_of(values.dtype)) : values.elements();
    for (std::int64_t first = 0; first < values.elements(); first += most) {
      const Tensor part = values.flat(first, std::min(most, values.elements() - first));
      const Tensor piece = bring(part);
      use(piece, first);
      if (changes) bring_back(part, piece);
    }
  }
  Tensor bring(const Tensor& part) const;
  void bring_back(const Tensor& part, const Tensor& piece) const;

  Stream& stream_;
  const Tensor& buffer_;
};

}  // namespace lockstep
