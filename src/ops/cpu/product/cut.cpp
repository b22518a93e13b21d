#include "ops/cpu/product/cut.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/cpu/product/product.h"

namespace lockstep::ops::cpu {
namespace {

// The stripe of columns whose packed form serves a block of rows. A small K lets it be wider and stay near (in the second-level
// cache): C is written in longer runs.
constexpr std::int64_t narrow_stripe = 96;
constexpr std::int64_t most_panel = 32;
constexpr std::int64_t near_floats = 64 * 1024;
constexpr std::int64_t near_stripe = Workspace::sums / Workspace::strip_rows / 2;  // a strip's sums must fit and stay near
constexpr std::int64_t wide_stripe = 384;
// Rows from which re-reading A costs more than a wide stripe's packing.
constexpr std::int64_t many_rows = 2048;
constexpr std::int64_t tiles_per_worker = 8;
// A worker keeps its packed stripe from block to block, so small ones cost nothing, and the last are shared more evenly.
constexpr std::int64_t most_block_rows = 192;
// A K so long that B's stripe does not fit: every tile packs it again, so there are fewer and larger ones.
constexpr std::int64_t long_tiles = 2;
constexpr std::int64_t long_rows = 192;
constexpr std::int64_t long_stripe = 192;
// Whole tiles of 14 rows, and with those of 6 no more than there is room for.
constexpr std::int64_t most_strip_rows = 98;
// Half of a second-level cache. Where columns of A are read in place, only B is packed. A packed stripe of B serves all rows, and
// stays in this half.
constexpr std::int64_t half_cache = 2 * near_floats;
// With at least so many rows, whose elements of A and C outnumber B's, a worker packs all of B and keeps to its rows. They are in
// its cache from the op before, and stay there for the one after.
constexpr std::int64_t own_rows = 192;
// Rows so few that packing weighs more than an uneven end.
constexpr std::int64_t few_rows = long_rows / 2;

// Equal parts of at most `most`, in multiples of `unit`.
std::int64_t even_part(std::int64_t total, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = div_up(total, std::max(most, unit));
  return round_up(div_up(total, parts), unit);
}

// A stripe of about `most` of n columns: there are never more stripes than counters.
std::int64_t stripe_of(std::int64_t n, std::int64_t most, std::int64_t panel) {
  return even_part(n, std::max(most, round_up(div_up(n, most_stripe_parts), panel)), panel);
}

// A strip is copied again for every stripe: twice as wide a stripe halves that, while it fits for all k (in words).
std::int64_t least_stripe(const ProductTask& task, std::int64_t k, const CutFor& by) {
  if (!task.copies_a(by.rows, by.depth) || task.a_transposed) return narrow_stripe;
  return std::clamp(Workspace::b / k / most_panel * most_panel, narrow_stripe, 2 * narrow_stripe);
}

// K that a packed stripe of `floats` holds.
std::int64_t pass_of(std::int64_t floats, std::int64_t stripe) { return std::max(k_block, floats / stripe / k_block * k_block); }

// Both operands are packed for every tile, a block of k at a time: large, nearly square tiles pack least.
void cut_long(const ProductTask& task, const CutFor& by, Cut& cut) {
  std::int64_t rows = long_rows, columns = wide_stripe;
  const std::int64_t wanted = task.m <= few_rows ? by.threads : long_tiles * by.threads;
  while (div_up(task.m, rows) * div_up(task.n, columns) < wanted && columns > narrow_stripe)
    (columns > rows ? columns : rows) /= 2;
  cut.rows = even_part(task.m, rows, by.rows);
  cut.stripe = stripe_of(task.n, columns, by.panel);
  cut.stripes = div_up(task.n, cut.stripe);
  cut.pass = k_block;
}

}  // namespace

Cut cut_of(const ProductTask& task, const CutFor& by) {
  const std::int64_t rows = by.rows, panel = by.panel, words = div_up(task.k, by.depth);
  const int threads = by.threads;
  const bool packs_a = task.a_transposed && task.copies_a(rows, by.depth), columns = task.a_transposed && !packs_a;
  const bool wide = packs_a || (!columns && task.m >= many_rows);
  const std::int64_t least = least_stripe(task, words, by);
  std::int64_t stripe = std::clamp(near_floats / words, least, columns ? long_stripe : near_stripe);
  if (wide) stripe = packs_a ? wide_stripe : std::clamp(Workspace::b / words, least, wide_stripe);
  Cut cut{};
  cut.stripe = stripe_of(task.n, stripe, panel);
  cut.pass = pass_of(columns ? half_cache : Workspace::b * by.depth, cut.stripe);
  cut.stripes = div_up(task.n, cut.stripe);
  const bool few = packs_a && task.m <= few_rows;
  if (cut.pass >= task.k && !few) {
    const std::int64_t wanted = div_up(tiles_per_worker * threads, cut.stripes);
    const std::int64_t most = threads == 1 ? task.m : std::min(div_up(task.m, wanted), most_block_rows);
    cut.rows = even_part(task.m, most, rows);
  } else if (packs_a) {
    cut_long(task, by, cut);
  } else {
    const bool enough = div_up(task.n, long_stripe) >= long_tiles * threads;
    cut.stripe = stripe_of(task.n, enough ? long_stripe : narrow_stripe, panel);
    cut.stripes = div_up(task.n, cut.stripe);
    cut.pass = columns ? pass_of(half_cache, cut.stripe) : k_block;
    cut.rows = even_part(task.m, div_up(task.m, div_up(long_tiles * threads, cut.stripes)), rows);
  }
  if (cut.pass < task.k) cut.rows = std::min(cut.rows, Workspace::sums / cut.stripe / rows * rows);
  cut.row_blocks = div_up(task.m, cut.rows);
  const std::int64_t each = task.m / threads;
  const bool own = !task.a_transposed && each >= own_rows && each * (words + task.n) >= words * task.n;
  if (own && cut.stripes * threads <= most_stripe_parts) cut.parts = threads;
  cut.strip_rows = even_part(std::min(cut.rows, task.m), most_strip_rows, rows);
  return cut;
}

}  // namespace lockstep::ops::cpu
