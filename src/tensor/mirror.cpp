#include "tensor/mirror.h"

#include "base/error.h"

namespace lockstep {

void copy(Stream& stream, const Tensor& to, const Tensor& from) {
  ensure(to.dense() && from.dense(), "only dense tensors are copied");
  ensure(to.dtype == from.dtype && to.elements() == from.elements(), "a copy keeps type and size");
  stream.copy(to.data, from.data, from.bytes());
}

void upload(Stream& stream, const Mirror& mirror) { copy(stream, mirror.device, mirror.host); }

void settle(Stream& stream, const Mirror& mirror) {
  if (mirror.device.data != mirror.host.data) stream.synchronize();
}

void download(Stream& stream, const Mirror& mirror) {
  if (mirror.device.data == mirror.host.data) return;
  copy(stream, mirror.host, mirror.device);
  stream.synchronize();
}

}  // namespace lockstep
