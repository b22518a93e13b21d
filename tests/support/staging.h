#pragma once

// Host tensors in a device's memory for one call. What overlaps on the host overlaps there: tensors in one place, and slices of
// one matrix, stay so. Each piece of memory is an allocation of its own, so that a device that guards them finds an access
// outside.

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "device/runtime.h"
#include "tensor/tensor.h"

namespace lockstep::support {

class Staging {
 public:
  /// Runtime and stream outlive it.
  Staging(Runtime& runtime, Stream& stream) : runtime_(runtime), stream_(stream) {}

  /// Points the tensors at copies in the device's memory, calls body(), and copies back what is there. An empty tensor stays as
  /// it is.
  template <class Body>
  void run(std::initializer_list<Tensor*> tensors, const Body& body) {
    std::vector<Piece> pieces = pieces_of(tensors);
    for (Piece& piece : pieces) {
      piece.memory = runtime_.memory().allocate(piece.bytes());
      stream_.copy(piece.memory.data(), piece.begin, piece.bytes());
    }
    for (Tensor* tensor : tensors) {
      if (!*tensor) continue;
      for (const Piece& piece : pieces) {
        if (tensor->data < piece.begin || tensor->data >= piece.end) continue;
        tensor->data = piece.memory.data() + (tensor->data - piece.begin);
        break;
      }
      tensor->device = runtime_.device();
    }
    body();
    for (const Piece& piece : pieces) stream_.copy(piece.begin, piece.memory.data(), piece.bytes());
    stream_.synchronize();
  }

 private:
  struct Piece {
    std::byte *begin, *end;
    Memory memory = {};
    std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  };

  static std::vector<Piece> pieces_of(std::initializer_list<Tensor*> tensors) {
    std::vector<Piece> all, merged;
    for (const Tensor* tensor : tensors) {
      if (!*tensor || tensor->elements() == 0) continue;
      const std::int64_t elements = (tensor->rows() - 1) * tensor->stride() + tensor->columns();
      all.push_back({tensor->data, tensor->data + elements * static_cast<std::int64_t>(size_of(tensor->dtype))});
    }
    std::ranges::sort(all, {}, &Piece::begin);
    for (Piece& piece : all) {
      if (!merged.empty() && piece.begin < merged.back().end) {
        merged.back().end = std::max(merged.back().end, piece.end);
      } else {
        merged.push_back(std::move(piece));
      }
    }
    return merged;
  }

  Runtime& runtime_;
  Stream& stream_;
};

}  // namespace lockstep::support
