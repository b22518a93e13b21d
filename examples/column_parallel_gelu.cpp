// Tensor parallelism by columns: Y = GeLU(X A) on three ranks. Rank i has the columns Ai of A, and [Y0 Y1 Y2] = [GeLU(X A0)
// GeLU(X A1) GeLU(X A2)]: nothing is sent before the GeLU, and Y comes together only where all of it is needed (Narayanan et al.
// 2021, arXiv 2104.04473). Nothing needs to divide: five columns are 1, 2 and 2.
//
//   build/column_parallel_gelu

#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <numbers>
#include <span>
#include <stdexcept>
#include <vector>

#include "comm/thread/thread_world.h"
#include "device/runtime.h"
#include "layout/range.h"

namespace {

using namespace lockstep;

constexpr int ranks = 3;
constexpr std::int64_t tokens = 2, in = 4, out = 5;

float x(std::int64_t token, std::int64_t i) { return static_cast<float>(token + 1) * 0.5F - static_cast<float>(i) * 0.25F; }
float a(std::int64_t i, std::int64_t o) { return static_cast<float>((3 * i + 2 * o) % 7) - 3; }
float gelu(float v) { return v / 2 * (1 + std::erf(v / std::numbers::sqrt2_v<float>)); }

/// Columns `columns` of Y, one column after another.
std::vector<float> product(layout::Range columns) {
  std::vector<float> y;
  for (std::int64_t o = columns.first; o < columns.end(); ++o) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      float sum = 0;
      for (std::int64_t i = 0; i < in; ++i) sum += x(t, i) * a(i, o);
      y.push_back(gelu(sum));
    }
  }
  return y;
}

Tensor tensor(std::vector<float>& values) { return view(std::span(values), Shape{std::ssize(values)}); }

void rank_i(comm::Communicator& world) {
  const std::unique_ptr<Runtime> runtime = open_runtime({}, {.threads = 1});
  const std::unique_ptr<Stream> stream = runtime->make_stream();
  world.attach(*stream, runtime->team());
  const int i = world.rank();
  const layout::Range mine = layout::part_of(out, i, ranks);
  std::vector<float> part = product(mine), all(tokens * out);
  std::printf("1. rank %d computes GeLU(X A%d), %d of %d columns, on its own\n", i, i, static_cast<int>(mine.count),
              static_cast<int>(out));
  world.barrier();

  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(tokens * layout::part_of(out, rank, ranks).count);
  world.all_gather(tensor(all), tensor(part), counts).wait();
  if (all != product({0, out})) throw std::runtime_error("Y differs from the product of one rank");
  if (i > 0) return;
  std::printf("2. all_gather: every rank has Y, which equals the product of one rank in every bit\n");
  // Rows of A would need a sum first: GeLU(u + v) is not GeLU(u) + GeLU(v).
  std::printf("   (split by rows instead: GeLU(1) + GeLU(-1) = %g, GeLU(0) = %g)\n", static_cast<double>(gelu(1) + gelu(-1)),
              static_cast<double>(gelu(0)));
}

}  // namespace

int main() try { comm::run_ranks(ranks, {}, rank_i); } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
