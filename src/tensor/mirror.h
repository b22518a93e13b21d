#pragma once

// A tensor that a device computes with and the host writes or reads. It is the device's tensor and a twin in pinned memory.
// Copies on the stream keep both alike. Where the device's memory is the host's they are one tensor, and copies are nothing.
// Arena::declare makes them.

#include "device/stream.h"
#include "tensor/tensor.h"

namespace lockstep {

struct Mirror {
  Tensor device, host;

  /// Elements [first, first + count) of both tensors.
  Mirror flat(std::int64_t first, std::int64_t count) const { return {device.flat(first, count), host.flat(first, count)}; }
};

/// Copies the elements of a dense tensor to another of its type and size, wherever they lie, in the order of the stream's work.
void copy(Stream& stream, const Tensor& to, const Tensor& from);

/// The device gets what the host wrote, in the order of the stream's work. The host writes the mirror again only after a later
/// download() or settle().
void upload(Stream& stream, const Mirror& mirror);
/// Blocks until the host may write the mirror again.
void settle(Stream& stream, const Mirror& mirror);
/// The host gets what the stream's work has written; blocks until it is there.
void download(Stream& stream, const Mirror& mirror);

}  // namespace lockstep
