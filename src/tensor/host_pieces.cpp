#include "tensor/host_pieces.h"

#include "base/error.h"

namespace lockstep {

void HostPieces::declare(Arena& pinned, Tensor& buffer, Device device) {
  if (!device.is_host()) pinned.declare(buffer, "pieces on their way", Shape{buffer_bytes}, DType::u8);
}

Tensor HostPieces::bring(const Tensor& part) const {
  if (!apart()) return part;
  ensure(part.bytes() <= buffer_.bytes() && buffer_, "a piece has room in the buffer");
  Tensor piece = buffer_;
  piece.dtype = part.dtype;
  piece.shape = part.shape;
  copy(stream_, piece, part);
  stream_.synchronize();
  return piece;
}

void HostPieces::bring_back(const Tensor& part, const Tensor& piece) const {
  if (!apart()) return;
  copy(stream_, part, piece);
  stream_.synchronize();
}

}  // namespace lockstep
