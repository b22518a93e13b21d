#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lab/machine.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/timer.h"
#include "lab/machine.h"
#include "lab/process.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::lab::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Enough independent chains to hide an addition's latency with room to spare, and few enough for the registers. Ten chains reach
// nine tenths of the rate of a product's tile.
constexpr int chains = hn::MaxLanes(hn::ScalableTag<float>()) == 16 ? 24 : 12;

/// `rounds` of a fused multiply-add in every chain. Returns the FLOPs done; `sink` gets a sum, so that nothing is left out.
double FmaChains(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> tag;
  const auto x = hn::Set(tag, 0.999F), y = hn::Set(tag, 0.001F);
  // Different starts: a compiler computes equal chains once.
  hn::Vec<decltype(tag)> chain[chains];
  HWY_UNROLL(24)
  for (int i = 0; i < chains; ++i) chain[i] = hn::Set(tag, 0.1F * static_cast<float>(i + 1));
  for (std::int64_t round = 0; round < rounds; ++round) {
    HWY_UNROLL(24)
    for (int i = 0; i < chains; ++i) chain[i] = hn::MulAdd(chain[i], x, y);
  }
  HWY_UNROLL(24)
  for (int i = 1; i < chains; ++i) chain[0] = hn::Add(chain[0], chain[i]);
  *sink = hn::GetLane(chain[0]);
  return 2.0 * chains * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(tag));
}

/// a, b, c [count] are updated from themselves and `d`.
void UpdateRange(float* a, float* b, float* c, const float* d, std::int64_t count) {
  const hn::ScalableTag<float> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto half = hn::Set(tag, 0.5F);
  for (std::int64_t at = 0; at + lanes <= count; at += lanes) {
    const auto read = hn::LoadU(tag, d + at);
    hn::StoreU(hn::MulAdd(half, hn::LoadU(tag, a + at), read), tag, a + at);
    hn::StoreU(hn::MulAdd(half, hn::LoadU(tag, b + at), read), tag, b + at);
    hn::StoreU(hn::MulAdd(half, hn::LoadU(tag, c + at), read), tag, c + at);
  }
}

/// a = b + s c [count].
void TriadRange(float* a, const float* b, const float* c, std::int64_t count) {
  const hn::ScalableTag<float> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto s = hn::Set(tag, 3.0F);
  for (std::int64_t at = 0; at + lanes <= count; at += lanes) {
    hn::StoreU(hn::MulAdd(s, hn::LoadU(tag, c + at), hn::LoadU(tag, b + at)), tag, a + at);
  }
}

/// Sum of [count] floats, in as many chains as hide an addition's latency.
float SumRange(const float* a, std::int64_t count) {
  const hn::ScalableTag<float> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  auto w = hn::Zero(tag), x = w, y = w, z = w;
  for (std::int64_t at = 0; at + 4 * lanes <= count; at += 4 * lanes) {
    w = hn::Add(w, hn::LoadU(tag, a + at));
    x = hn::Add(x, hn::LoadU(tag, a + at + lanes));
    y = hn::Add(y, hn::LoadU(tag, a + at + 2 * lanes));
    z = hn::Add(z, hn::LoadU(tag, a + at + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(w, x), hn::Add(y, z)));
}

}  // namespace lockstep::lab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::lab {
namespace {

HWY_EXPORT(FmaChains);
HWY_EXPORT(UpdateRange);
HWY_EXPORT(SumRange);
HWY_EXPORT(TriadRange);

constexpr std::int64_t stream_floats = std::int64_t{8} << 20;  // of one stream: four of them are beyond the caches
constexpr int bandwidth_samples = 8;
constexpr std::int64_t stream_tile = std::int64_t{1} << 14;

// Every page has been written, or reads would all meet the kernel's one page of zeros.
Memory written(Team& team, MemorySource& memory, std::int64_t tiles) {
  Memory area = memory.allocate(static_cast<std::size_t>(tiles * stream_tile) * sizeof(float));
  float* const a = reinterpret_cast<float*>(area.data());
  team.for_each(tiles, [&](std::int64_t i, int) { std::fill_n(a + i * stream_tile, stream_tile, 1.0F); });
  return area;
}

Memory four_streams(Team& team, MemorySource& memory) { return written(team, memory, 4 * stream_floats / stream_tile); }

// The best of several passes over tiles, each of which does `work`: work a second.
template <class Tile>
double best_rate(Team& team, int samples, std::int64_t tiles, double work, const Tile& tile) {
  double best = 0;
  for (int sample = 0; sample < samples; ++sample) {
    const double start = now_seconds();
    team.for_each(tiles, [&](std::int64_t i, int) { tile(i); });
    best = std::max(best, work / (now_seconds() - start));
  }
  return best;
}

// The best rate by all ranks at the same time, each pass as long as its slowest rank. `work`: of one rank.
template <class Tile>
double best_rate_of_all(Team& team, comm::Communicator& world, std::int64_t tiles, double work, const Tile& tile) {
  double best = 0;
  for (int sample = 0; sample < bandwidth_samples; ++sample) {
    world.barrier();
    const double start = now_seconds();
    team.for_each(tiles, [&](std::int64_t i, int) { tile(i); });
    best = std::max(best, work * world.size() / slowest_of(now_seconds() - start, world));
  }
  return best;
}

constexpr double update_bytes = 28.0 * stream_floats;

// Updates four streams, tile by tile.
auto tile_update(float* a) {
  return [a, update = HWY_DYNAMIC_DISPATCH(UpdateRange)](std::int64_t i) {
    float* const from = a + i * stream_tile;
    update(from, from + stream_floats, from + 2 * stream_floats, from + 3 * stream_floats, stream_tile);
  };
}

}  // namespace

double slowest_of(double seconds, comm::Communicator& world) {
  world.host().all_reduce(view(std::span(&seconds, 1), Shape{1}), comm::Reduction::max).wait();
  return seconds;
}

double fma_peak(Team& team) {
  constexpr int samples = 12;
  constexpr int chunks = 8;  // a worker: one thread reads the clock, and a disturbed worker leaves chunks to others
  constexpr std::int64_t rounds = 25000;
  const auto chains = HWY_DYNAMIC_DISPATCH(FmaChains);
  float sink = 0;
  const double chunk_flops = chains(rounds, &sink);  // once before the clock: units power up
  const std::int64_t tiles = std::int64_t{chunks} * team.size();
  return best_rate(team, samples, tiles, chunk_flops * static_cast<double>(tiles), [&](std::int64_t) {
    float mine = 0;
    chains(rounds, &mine);
    // Keeps the result alive without a store that workers share.
    asm volatile("" : "+m"(mine));
  });
}

double fma_rate(Team& team, double seconds) {
  constexpr std::int64_t rounds = 500;  // some microseconds
  const auto chains = HWY_DYNAMIC_DISPATCH(FmaChains);
  std::atomic<double> rate = 0;
  team.on_all([&](int) {
    team.barrier();
    const double start = now_seconds();
    double flops = 0, elapsed = 0;
    do {
      float sink = 0;
      flops += chains(rounds, &sink);
      asm volatile("" : "+m"(sink));  // keeps the result alive
      elapsed = now_seconds() - start;
    } while (elapsed < seconds);
    rate.fetch_add(flops / elapsed);
  });
  return rate;
}

double update_bandwidth(Team& team, MemorySource& memory) {
  const Memory streams = four_streams(team, memory);
  return best_rate(team, bandwidth_samples, stream_floats / stream_tile, update_bytes,
                   tile_update(reinterpret_cast<float*>(streams.data())));
}

double update_bandwidth(Team& team, MemorySource& memory, comm::Communicator& world) {
  const Memory streams = four_streams(team, memory);
  return best_rate_of_all(team, world, stream_floats / stream_tile, update_bytes,
                          tile_update(reinterpret_cast<float*>(streams.data())));
}

double read_bandwidth(Team& team, MemorySource& memory, std::int64_t bytes) {
  constexpr std::int64_t most = std::int64_t{1} << 30, tile_bytes = stream_tile * sizeof(float);
  const std::int64_t tiles = std::max<std::int64_t>(std::min({bytes, most, free_memory() / 4}) / tile_bytes, 1);
  const Memory area = written(team, memory, tiles);
  const float* const a = reinterpret_cast<const float*>(area.data());
  const auto sum = HWY_DYNAMIC_DISPATCH(SumRange);
  // As many readings as take no longer than those of a small area.
  const auto samples = static_cast<int>(std::clamp<std::int64_t>(most / (tiles * tile_bytes), 2, bandwidth_samples));
  return best_rate(team, samples, tiles, static_cast<double>(tiles * tile_bytes), [&](std::int64_t i) {
    float total = sum(a + i * stream_tile, stream_tile);
    asm volatile("" : "+m"(total));  // keeps the sum alive
  });
}

double triad_bandwidth(Team& team, MemorySource& memory, comm::Communicator& world) {
  const Memory streams = four_streams(team, memory);
  float* const a = reinterpret_cast<float*>(streams.data());
  const auto triad = HWY_DYNAMIC_DISPATCH(TriadRange);
  return best_rate_of_all(team, world, stream_floats / stream_tile, 12.0 * stream_floats, [&](std::int64_t i) {
    float* const from = a + i * stream_tile;
    triad(from, from + stream_floats, from + 2 * stream_floats, stream_tile);
  });
}

}  // namespace lockstep::lab
#endif
