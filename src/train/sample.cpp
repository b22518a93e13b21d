#include "train/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/math/elementary.h"
#include "base/rng.h"

namespace lockstep::train {
namespace {

/// Prompts are read at most this many tokens at a time.
constexpr std::int64_t longest_piece = 256;

/// Ranks that write together agree after so many tokens whether any of them goes on. Asking takes some microseconds and lets all
/// wait for the slowest. Not asking may cost passes that no rank needs.
constexpr std::int64_t tokens_between_agreements = 4;

/// Whether any of the ranks writes on. Collective.
bool any_writes(bool writes, comm::Communicator& ranks) {
  std::int32_t any = writes ? 1 : 0;
  ranks.host().all_reduce(view(std::span(&any, 1), Shape{1}), comm::Reduction::max).wait();
  return any != 0;
}

}  // namespace

std::int32_t TokenSampler::draw(std::span<const float> logits, const SampleOptions& options, double uniform) {
  if (options.temperature <= 0) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  float least = std::numeric_limits<float>::lowest();
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < logits.size()) {
    likeliest_.resize(static_cast<std::size_t>(options.top_k));
    std::partial_sort_copy(logits.begin(), logits.end(), likeliest_.begin(), likeliest_.end(), std::greater<>());
    least = std::max(least, likeliest_.back());
  }
  order_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) order_.push_back(static_cast<std::int32_t>(i));
  }
  if (order_.empty()) return 0;
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  const double top = logit(*std::ranges::max_element(order_, {}, logit));
  const auto weight = [&](std::int32_t id) { return exponential((logit(id) - top) / options.temperature); };
  double total = 0;
  for (const std::int32_t id : order_) total += weight(id);
  // Few tokens have most of the weight, so that all are seldom sorted.
  std::size_t sorted = 0;
  const auto nth_likeliest = [&](std::size_t n) {
    if (n == sorted) {
      const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(sorted);
      sorted = std::min(order_.size(), std::max<std::size_t>(64, 4 * sorted));
      std::partial_sort(begin, order_.begin() + static_cast<std::ptrdiff_t>(sorted), order_.end(),
                        [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b) || (logit(a) == logit(b) && a < b); });
    }
    return order_[n];
  };
  std::size_t kept = order_.size();
  if (options.top_p < 1) {
    double mass = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      mass += weight(nth_likeliest(i));
      if (mass >= options.top_p * total) kept = i + 1;
    }
    total = mass;
  }
  double left = uniform * total;
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weight(nth_likeliest(i));
    if (left < 0) return order_[i];
  }
  return nth_likeliest(kept - 1);
}

TextSampler::TextSampler(const ModelShare& model)
    : context_(model.context),
      piece_(std::min(longest_piece, context_.config.block_size)),
      decoder_(model, {.texts = 1}, piece_),
      logits_(context_.dims, *context_.boundaries.head, context_.config.vocabulary, 1) {}

void TextSampler::declare(Arena& workspace, Arena& cache) {
  decoder_.declare(workspace, cache);
  workspace.declare(tokens_, "tokens", Shape{piece_}, DType::i32);
  if (decoder_.has_head()) logits_.declare(workspace);
}

std::span<float> TextSampler::read(std::span<const std::int32_t> tokens) {
  Stream& stream = context_.ops.stream();
  while (!tokens.empty()) {
    const std::size_t count = std::min(tokens.size(), static_cast<std::size_t>(piece_));
    const auto rows = static_cast<std::int64_t>(count);
    const Mirror piece = tokens_.flat(0, rows);
    settle(stream, piece);
    std::copy_n(tokens.begin(), count, elements<std::int32_t>(piece.host).begin());
    upload(stream, piece);
    const ops::CachedText next{.rows = rows, .position = std::exchange(read_, read_ + rows)};
    const Tensor x = decoder_.read(piece.device, std::span(&next, 1));
    tokens = tokens.subspan(count);
    if (tokens.empty() && decoder_.has_head()) decoder_.decoder().logits(logits_.own(1), x.slice_rows(rows - 1, 1));
  }
  if (!decoder_.has_head()) return {};
  return elements<float>(logits_.bring(stream, 1));
}

std::int32_t TextSampler::draw(std::span<float> logits, const SampleOptions& options, double uniform) {
  if (!decoder_.has_head()) return decoder_.from_head(0);
  for (const std::int32_t id : options.never) logits[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
  return decoder_.from_head(sampler_.draw(logits, options, uniform));
}

void TextSampler::run(std::span<const std::int32_t> prompt, const SampleOptions& options,
                      const std::function<bool(std::int32_t)>& each, comm::Communicator* together) {
  ensure(!prompt.empty(), "a prompt has at least one token");
  ensure(std::ranges::all_of(prompt, [&](std::int32_t id) { return id >= 0 && id < context_.config.vocabulary; }),
         "a prompt has ids of the model's vocabulary");
  const auto block = static_cast<std::size_t>(context_.config.block_size);
  text_.assign(prompt.begin(), prompt.end());
  const CounterRng rng(options.seed, fmt::format("sample.{}", options.number));
  read_ = 0;
  std::size_t unread = std::min(text_.size(), block);
  const bool alone = together == nullptr || together->size() == 1;
  bool writes = true;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::span<float> logits = read(std::span(text_).last(unread));
    const std::int32_t token = draw(logits, options, rng.uniform(static_cast<std::uint64_t>(i)));
    writes = writes && each(token);
    if (alone && !writes) return;
    if (!alone && (i + 1) % tokens_between_agreements == 0 && !any_writes(writes, *together)) return;
    text_.push_back(token);
    unread = 1;
    if (read_ == context_.config.block_size) {
      read_ = 0;
      unread = block;
    }
  }
}

}  // namespace lockstep::train
