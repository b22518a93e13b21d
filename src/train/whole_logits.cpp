#include "train/whole_logits.h"

#include <algorithm>

#include "layout/range.h"

namespace lockstep::train {

void WholeLogits::declare(Arena& workspace) {
  workspace.declare(parts_, "logits", Shape{dims_.vocabulary_parts, room()}, DType::f32);
  if (dims_.vocabulary_parts > 1) workspace.declare(whole_, "logits of all parts", Shape{rows_, vocabulary_}, DType::f32);
}

Tensor WholeLogits::own(std::int64_t rows) const {
  return parts_.device.flat(dims_.vocabulary_part * room(), rows * dims_.vocabulary).reshape(Shape{rows, dims_.vocabulary});
}

Tensor WholeLogits::host(std::int64_t rows) const {
  const Tensor& all = dims_.vocabulary_parts == 1 ? parts_.host : whole_.host;
  return all.flat(0, rows * vocabulary_).reshape(Shape{rows, vocabulary_});
}

Tensor WholeLogits::bring(Stream& stream, std::int64_t rows) const {
  const int parts = dims_.vocabulary_parts;
  if (parts == 1) {
    download(stream, parts_.flat(0, rows * vocabulary_));
    return host(rows);
  }
  boundary_.collect(parts_.device, parts_.device.flat(dims_.vocabulary_part * room(), room())).join(stream);
  download(stream, parts_);
  const std::span<const float> from = elements<const float>(parts_.host);
  const std::span<float> to = elements<float>(whole_.host);
  for (int part = 0; part < parts; ++part) {
    const layout::Range tokens = layout::part_of(vocabulary_, part, parts);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::ranges::copy(
          from.subspan(static_cast<std::size_t>(part * room() + row * tokens.count), static_cast<std::size_t>(tokens.count)),
          to.subspan(static_cast<std::size_t>(row * vocabulary_ + tokens.first)).begin());
    }
  }
  return host(rows);
}

}  // namespace lockstep::train
