// Tensor parallelism by rows: y = x W = x0 W0 + x1 W1 + x2 W2 on three ranks. Rank i has the rows Wi of W and the columns xi of x
// that meet them. The parts are added along a chain of ranks, and again by one all_reduce, as training does it.
//
//   build/row_parallel_sum

#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "comm/thread/thread_world.h"
#include "device/runtime.h"

namespace {

using namespace lockstep;
using Matrix = std::vector<float>;  // row by row

constexpr int ranks = 3;
constexpr std::int64_t tokens = 2, in = 6, out = 4, part = in / ranks;

float x(std::int64_t token, std::int64_t i) { return static_cast<float>(token + 1) * 0.5F - static_cast<float>(i) * 0.25F; }
float w(std::int64_t i, std::int64_t o) { return static_cast<float>((3 * i + 2 * o) % 7) - 3; }

/// x W over rows [first, end) of W.
Matrix product(std::int64_t first, std::int64_t end) {
  Matrix y(tokens * out);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t i = first; i < end; ++i) y[static_cast<std::size_t>(t * out + o)] += x(t, i) * w(i, o);
    }
  }
  return y;
}

Tensor tensor(Matrix& m) { return view(std::span(m), Shape{tokens, out}); }

void demand_equal(const Matrix& a, const Matrix& b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 1e-5F) throw std::runtime_error("the sum differs from the product of one rank");
  }
}

void rank_i(comm::Communicator& world) {
  const std::unique_ptr<Runtime> runtime = open_runtime({}, {.threads = 1});
  const std::unique_ptr<Stream> stream = runtime->make_stream();
  world.attach(*stream, runtime->team());
  const int i = world.rank();
  const Matrix mine = product(i * part, (i + 1) * part), whole = product(0, in);

  // A chain: each rank adds its part to the sum of those before it.
  Matrix sum(mine.size());
  if (i > 0) world.receive(tensor(sum), i - 1).wait();
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += mine[k];
  std::printf("%d. rank %d computes x%d W%d, %s: y[0][0] = %g\n", i + 1, i, i, i,
              i == 0 ? "the first part" : "adds what came from the rank before", static_cast<double>(sum[0]));
  if (i + 1 < ranks) world.send(tensor(sum), i + 1).wait();
  if (i + 1 == ranks) demand_equal(sum, whole);
  world.barrier();

  // One collective: every rank has y.
  Matrix reduced = mine;
  world.all_reduce(tensor(reduced), comm::Reduction::sum).wait();
  demand_equal(reduced, whole);
  if (i == 0)
    std::printf("all_reduce: y[0][0] = %g on every rank, which equals the product of one rank\n",
                static_cast<double>(reduced[0]));
}

}  // namespace

int main() try { comm::run_ranks(ranks, {}, rank_i); } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
