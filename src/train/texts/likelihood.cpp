#include "train/texts/likelihood.h"

#include <algorithm>

namespace lockstep::train {

LikelihoodReader::LikelihoodReader(const ModelShare& model, std::int64_t longest)
    : context_(model.context),
      piece_(std::min<std::int64_t>(longest, 256)),
      decoder_(model, {.texts = 1}, piece_),
      logits_(context_.dims, *context_.boundaries.head, context_.config.vocabulary, piece_) {}

void LikelihoodReader::declare(Arena& workspace, Arena& cache) {
  workspace.declare(tokens_, "tokens", Shape{piece_}, DType::i32);
  workspace.declare(targets_, "targets", Shape{piece_}, DType::i32);
  workspace.declare(loss_, "loss", Shape{1}, DType::f64);
  decoder_.declare(workspace, cache);
  if (decoder_.has_head()) logits_.declare(workspace);
}

Likelihood LikelihoodReader::of(std::span<const std::int32_t> tokens, std::size_t from) {
  ensure(from >= 1 && from < tokens.size(), "there is something before what is judged");
  const std::size_t end = tokens.size() - 1;  // the last token is foretold, not read
  const auto common = std::ranges::mismatch(read_, tokens.first(end)).in1 - read_.begin();
  std::size_t at = std::min(static_cast<std::size_t>(common), from - 1);
  Likelihood result;
  while (at < end) {
    const std::size_t count = std::min(end - at, static_cast<std::size_t>(piece_));
    read_piece(tokens, at, count, from, result);
    at += count;
  }
  read_.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
  return result;
}

void LikelihoodReader::read_piece(std::span<const std::int32_t> tokens, std::size_t first, std::size_t count, std::size_t from,
                                  Likelihood& sum) {
  const auto rows = static_cast<std::int64_t>(count);
  Stream& stream = context_.ops.stream();
  const Mirror ids = tokens_.flat(0, rows), targets = targets_.flat(0, rows);
  std::ranges::copy(tokens.subspan(first, count), elements<std::int32_t>(ids.host).begin());
  upload(stream, ids);
  const ops::CachedText next{.rows = rows, .position = static_cast<std::int64_t>(first)};
  const Tensor x = decoder_.read(ids.device, std::span(&next, 1));
  if (!decoder_.has_head() || first + count < from) return;
  const std::span<std::int32_t> wanted = elements<std::int32_t>(targets.host);
  for (std::size_t i = 0; i < count; ++i) wanted[i] = first + i + 1 < from ? -1 : tokens[first + i + 1];
  upload(stream, targets);
  elements<double>(loss_.host)[0] = 0;
  upload(stream, loss_);
  decoder_.decoder().loss(x, {targets.device, loss_.device});
  download(stream, loss_);
  sum.sum -= elements<double>(loss_.host)[0];
  decoder_.decoder().logits(logits_.own(rows), x);
  const Tensor logits = logits_.bring(stream, rows);
  for (std::size_t i = 0; i < count; ++i) {
    if (wanted[i] < 0) continue;
    const std::span<const float> row = elements<float>(logits.slice_rows(static_cast<std::int64_t>(i), 1));
    sum.likeliest = sum.likeliest && std::ranges::max_element(row) - row.begin() == wanted[i];
  }
}

}  // namespace lockstep::train
