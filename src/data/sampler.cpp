#include "data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "base/units.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t feistel_rounds = 8;

}  // namespace

std::string training_sequence(Order order) { return order == Order::partition ? "data.partition" : "data.random"; }

Sampler::Sampler(const SamplerOptions& options) : options_(options), rng_(options.seed, options.name) {
  ensure(options.positions >= 1 && options.global_batch >= 1, "a window and a batch are not empty");
  ensure(options.global_batch % options.shards == 0, "every shard gives as many samples to a step");
  if (options_.stride == 0) options_.stride = options.positions;
  ensure(options_.stride >= 1 && options_.stride <= options.positions, "windows leave no token out");
  if (options.order == Order::sequential) {
    if (options.tokens < 2) throw UserError("a text of one token has no target", "give a longer text");
    windows_ = 1 + div_up(std::max<std::int64_t>(0, options.tokens - 1 - options.positions), options_.stride);
    return;
  }
  if (options.tokens < options.positions + 1) {
    throw UserError(fmt::format("the text has {} tokens, but a window of {} needs {}", format_count(options.tokens),
                                options.positions, format_count(options.positions + 1)),
                    "lower model.block_size, or prepare a longer text");
  }
  windows_ = div_up(options.tokens - options.positions, options.positions);
  if (options.order == Order::partition && steps_per_epoch() == 0) {
    throw UserError(fmt::format("an epoch has {} windows of {} tokens, but a step needs {}", format_count(windows_),
                                options.positions, format_count(per_step())),
                    "lower model.batch_size, optimizer.gas or --ranks, prepare a longer text, or set data.epoch_end=pad or "
                    "data.order=random");
  }
  ensure(windows_ % options.together == 0 && per_step() % options.together == 0, "windows that stay together are whole groups");
  side_ = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::sqrt(static_cast<double>(groups()))));
  while (side_ * side_ < groups()) ++side_;
}

std::int64_t Sampler::steps_per_epoch() const {
  return options_.pad_epochs ? div_up(windows_, per_step()) : windows_ / per_step();
}

// The shard's samples of all steps, counted through.
std::uint64_t Sampler::number_here(std::uint64_t sample) const {
  if (options_.shards == 1) return sample;
  const auto batch = static_cast<std::uint64_t>(options_.global_batch), part = static_cast<std::uint64_t>(per_step());
  const std::uint64_t first = static_cast<std::uint64_t>(options_.shard) * part, within = sample % batch;
  ensure(within >= first && within < first + part, "a shard gives its own samples");
  return sample / batch * part + within - first;
}

std::int64_t Sampler::offset(std::uint64_t global_sample) const {
  const std::uint64_t sample = number_here(global_sample);
  switch (options_.order) {
    case Order::random:
      return static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(options_.tokens - options_.positions), sample));
    case Order::partition: {
      const auto epoch = static_cast<std::uint64_t>(per_epoch());
      const std::uint64_t index = sample % epoch % static_cast<std::uint64_t>(windows_);  // padding begins anew
      const auto together = static_cast<std::uint64_t>(options_.together);
      const std::uint64_t window = permuted(index / together, sample / epoch) * together + index % together;
      return static_cast<std::int64_t>(window) * options_.positions;
    }
    case Order::sequential:
      ensure(sample < static_cast<std::uint64_t>(windows_), "the window exists");
      return static_cast<std::int64_t>(sample) * options_.stride;
  }
  throw BrokenRule("the order is known");
}

Window Sampler::window(std::uint64_t sample) const {
  const std::int64_t begin = offset(sample), overlap = options_.positions - options_.stride;
  if (options_.references)
    return {begin, options_.positions, 0, (*options_.references)[static_cast<std::size_t>(begin / options_.positions)]};
  if (options_.order != Order::sequential) return {begin, options_.positions, 0};
  return {begin, std::min(options_.positions, options_.tokens - 1 - begin), begin == 0 ? 0 : overlap};
}

// A bijection of [0, groups), keyed by seed and epoch. It is a Feistel network on pairs of digits in base `side` (Black and
// Rogaway, CT-RSA 2002, "Ciphers with arbitrary finite domains"). It is walked until it lands below the number of groups.
std::uint64_t Sampler::permuted(std::uint64_t index, std::uint64_t epoch) const {
  do {
    std::uint64_t left = index / side_;
    std::uint64_t right = index % side_;
    for (std::uint64_t round = 0; round < feistel_rounds; ++round) {
      const std::uint64_t mixed = (left + rng_.below(side_, right, epoch * feistel_rounds + round)) % side_;
      left = right;
      right = mixed;
    }
    index = left * side_ + right;
  } while (index >= groups());
  return index;
}

}  // namespace lockstep::data
