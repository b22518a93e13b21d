#include "ops/cpu/product/product.h"

#include <algorithm>
#include <new>

#include "base/checked.h"
#include "ops/cpu/product/ahead.h"
#include "ops/cpu/product/tiles.h"

namespace lockstep::ops::cpu {
namespace {

// Floats of a worker's scratch.
constexpr std::int64_t b_floats = 384 * 1024;
constexpr std::int64_t most_strip_rows = 112;
constexpr std::int64_t strip_floats = most_strip_rows * k_block;
constexpr std::int64_t sums_floats = 192 * 1024;
constexpr std::int64_t edge_floats = 16 * 64;
constexpr std::int64_t worker_floats = b_floats + strip_floats + sums_floats + edge_floats;
constexpr std::int64_t most_stripes = 16384;

// The stripe of columns whose packed form serves a block of rows. A small K lets it be wider and stay near (in the second-level
// cache): C is written in longer runs.
constexpr std::int64_t narrow_stripe = 96;
constexpr std::int64_t most_panel = 32;
constexpr std::int64_t near_floats = 64 * 1024;
constexpr std::int64_t near_stripe = sums_floats / most_strip_rows / 2;  // a strip's sums must fit and stay near
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
// Rows so few that packing weighs more than an uneven end.
constexpr std::int64_t few_rows = long_rows / 2;

// Equal parts of at most `most`, in multiples of `unit`.
std::int64_t even_part(std::int64_t total, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = div_up(total, std::max(most, unit));
  return round_up(div_up(total, parts), unit);
}

// A stripe of about `most` of n columns: there are never more stripes than counters.
std::int64_t stripe_of(std::int64_t n, std::int64_t most, std::int64_t panel) {
  return even_part(n, std::max(most, round_up(div_up(n, most_stripes), panel)), panel);
}

// A strip of bf16 is copied again for every stripe: twice as wide a stripe halves that, while it fits for all k (in words).
std::int64_t least_stripe(const ProductTask& task, std::int64_t k) {
  if (task.a_type == DType::f32 || task.a_transposed) return narrow_stripe;
  return std::clamp(b_floats / k / most_panel * most_panel, narrow_stripe, 2 * narrow_stripe);
}

// Element i of a matrix's memory.
const std::byte* at(const void* from, DType type, std::int64_t i) {
  return static_cast<const std::byte*>(from) + i * static_cast<std::int64_t>(size_of(type));
}

}  // namespace

// One block of k for a strip of rows: `area` of C, and where its sums come from and go to.
struct Product::BlockStep {
  Area area;
  std::int64_t k, count;
  const float* b;
  const float* from;
  std::int64_t from_stride;
  float* to;
  std::int64_t to_stride;
  bool exact;  // `from` or `to` is C itself, which has no padding
  Ahead* ahead;
};

Product::Way Product::floats(Isa isa) { return {microkernel_for(isa), packing_for(isa), thin_kernel_for(isa), 1}; }

Product::Way Product::bf16(Isa isa, Bf16Order order) {
  if (order == Bf16Order::widened) return floats(isa);
  return {pair_microkernel_for(isa, order), pair_packing_for(isa), pair_thin_kernel_for(isa, order), 2};
}

Product::Product(Team& team, Isa isa, MemorySource& memory, Bf16Order order)
    : team_(team),
      isa_(isa),
      bf16_order_(resolve(order, isa)),
      floats_(floats(isa)),
      bf16_(bf16(isa, bf16_order_)),
      memory_(memory.allocate(static_cast<std::size_t>(worker_floats * team.size() * 4 + most_stripes * 4))) {
  auto* counters = reinterpret_cast<std::atomic<std::int32_t>*>(memory_.data() + worker_floats * team.size() * 4);
  for (std::int64_t i = 0; i < most_stripes; ++i) new (counters + i) std::atomic<std::int32_t>(0);
  next_blocks_ = counters;
}

Product::Scratch Product::scratch_of(int worker) const {
  float* base = reinterpret_cast<float*>(memory_.data()) + worker_floats * worker;
  return {base, base + b_floats, base + b_floats + strip_floats, base + b_floats + strip_floats + sums_floats, -1};
}

Product::Cut Product::cut(const ProductTask& task, int threads) const {
  const Way& by = way(task);
  const std::int64_t rows = by.kernel.rows, panel = by.kernel.columns, words = div_up(task.k, by.depth);
  const bool wide = task.a_transposed || task.m >= many_rows;
  const std::int64_t least = least_stripe(task, words);
  std::int64_t stripe = std::clamp(near_floats / words, least, near_stripe);
  if (wide) stripe = task.a_transposed ? wide_stripe : std::clamp(b_floats / words, least, wide_stripe);
  Cut cut{};
  cut.stripe = stripe_of(task.n, stripe, panel);
  cut.pass = std::max(k_block, b_floats * by.depth / cut.stripe / k_block * k_block);
  cut.stripes = div_up(task.n, cut.stripe);
  const bool few = task.a_transposed && task.m <= few_rows;
  if (cut.pass >= task.k && !few) {
    const std::int64_t wanted = div_up(tiles_per_worker * threads, cut.stripes);
    const std::int64_t most = threads == 1 ? task.m : std::min(div_up(task.m, wanted), most_block_rows);
    cut.rows = even_part(task.m, most, rows);
  } else if (task.a_transposed) {
    cut_long(task, threads, cut);
  } else {
    const bool enough = div_up(task.n, long_stripe) >= long_tiles * threads;
    cut.stripe = stripe_of(task.n, enough ? long_stripe : narrow_stripe, panel);
    cut.stripes = div_up(task.n, cut.stripe);
    cut.pass = k_block;
    cut.rows = even_part(task.m, div_up(task.m, div_up(long_tiles * threads, cut.stripes)), rows);
  }
  if (cut.pass < task.k) cut.rows = std::min(cut.rows, sums_floats / cut.stripe / rows * rows);
  cut.row_blocks = div_up(task.m, cut.rows);
  cut.strip_rows = even_part(std::min(cut.rows, task.m), 96, rows);
  return cut;
}

// Both operands are packed for every tile, a block of k at a time: large, nearly square tiles pack least.
void Product::cut_long(const ProductTask& task, int threads, Cut& cut) const {
  std::int64_t rows = long_rows, columns = wide_stripe;
  const std::int64_t wanted = task.m <= few_rows ? threads : long_tiles * threads;
  while (div_up(task.m, rows) * div_up(task.n, columns) < wanted && columns > narrow_stripe)
    (columns > rows ? columns : rows) /= 2;
  const Microkernel& kernel = way(task).kernel;
  cut.rows = even_part(task.m, rows, kernel.rows);
  cut.stripe = stripe_of(task.n, columns, kernel.columns);
  cut.stripes = div_up(task.n, cut.stripe);
  cut.pass = k_block;
}

void Product::run(const ProductTask& task) {
  const bool thin = task.m <= ThinStep::most_rows && task.m * task.k <= b_floats;
  if (thin && task.b_transposed && !task.a_transposed && !task.accumulate) return run_thin(task);
  const Cut parts = cut(task, team_.size());
  for (std::int64_t i = 0; i < parts.stripes; ++i) next_blocks_[i].store(0, std::memory_order_relaxed);
  const std::int64_t workers = std::min<std::int64_t>(team_.size(), parts.stripes * parts.row_blocks);
  team_.for_each(workers, [&](std::int64_t slot, int worker) { take_tiles(task, parts, static_cast<int>(slot), worker); });
}

void Product::run_thin(const ProductTask& task) {
  constexpr std::int64_t panel = ThinStep::panel;
  const Way& by = way(task);
  const auto* a = static_cast<const float*>(task.a);
  std::int64_t a_stride = task.a_stride;
  if (task.a_type == DType::bf16) {
    float* wide = scratch_of(0).b;
    a_stride = div_up(task.k, by.depth);
    by.packing.rows({task.a, task.a_stride, task.m, task.k, task.a_type}, a_stride, wide);
    a = wide;
  }
  // Workers take panels in turn, more or less.
  const std::int64_t ahead = panel * team_.size();
  team_.for_each(div_up(task.n, panel), [&](std::int64_t tile, int worker) {
    float* sums = scratch_of(worker).edge;
    const std::int64_t column = tile * panel, columns = std::min(panel, task.n - column);
    const std::int64_t next = column + ahead < task.n ? ahead * task.b_stride : 0;
    const std::int64_t tiled = std::clamp<std::int64_t>(task.b_tiled - column, 0, columns);
    const auto multiply = [&](std::int64_t first, std::int64_t count, bool in_tiles) {
      if (count == 0) return;
      const std::byte* b = at(task.b, task.b_type, (column + first) * task.b_stride);
      by.thin({a, a_stride, task.m, b, task.b_stride, count, task.k, sums + first, task.b_type, next, in_tiles});
    };
    // Sums of columns that are missing end in the next row's: those in tiles have none.
    multiply(tiled, columns - tiled, false);
    multiply(0, tiled, true);
    if (task.finish.apply != nullptr) return task.finish.apply(task.finish.context, {0, column, task.m, columns}, sums, panel);
    for (std::int64_t i = 0; i < task.m; ++i) std::copy_n(sums + i * panel, columns, task.c + i * task.c_stride + column);
  });
}

std::int64_t Product::store_in_tiles(const void* from, void* to, DType type, std::int64_t n, std::int64_t k) {
  const std::int64_t bytes = k * static_cast<std::int64_t>(size_of(type)), words = bytes / 4;
  const bool fits = k % tile_depth == 0 && tile_columns * words <= b_floats;
  const std::int64_t tiles = fits ? n / tile_columns : 0, tile_bytes = tile_columns * bytes;
  if (tiles == 0) return 0;
  const auto* rows = static_cast<const std::byte*>(from);
  auto* stored = static_cast<std::byte*>(to);
  team_.for_each(tiles, [&](std::int64_t tile, int worker) {
    store_tile(reinterpret_cast<const std::uint32_t*>(rows + tile * tile_bytes), words,
               reinterpret_cast<std::uint32_t*>(stored + tile * tile_bytes),
               reinterpret_cast<std::uint32_t*>(scratch_of(worker).b));
  });
  if (from != to) std::copy(rows + tiles * tile_bytes, rows + n * bytes, stored + tiles * tile_bytes);
  return tiles * tile_columns;
}

void Product::run_alone(const ProductTask& task, int worker) {
  const Cut parts = cut(task, 1);
  Scratch scratch = scratch_of(worker);
  for (std::int64_t stripe = 0; stripe < parts.stripes; ++stripe)
    for (std::int64_t block = 0; block < parts.row_blocks; ++block) run_tile(task, parts, stripe, block, scratch);
}

// A worker stays with a stripe, whose packed form it has, while there are rows; then helps with the next one.
void Product::take_tiles(const ProductTask& task, const Cut& cut, int slot, int worker) {
  Scratch scratch = scratch_of(worker);
  const std::int64_t first = cut.stripes * slot / team_.size();
  for (std::int64_t i = 0; i < cut.stripes; ++i) {
    const std::int64_t stripe = (first + i) % cut.stripes;
    for (;;) {
      const std::int64_t block = next_blocks_[stripe].fetch_add(1, std::memory_order_relaxed);
      if (block >= cut.row_blocks) break;
      run_tile(task, cut, stripe, block, scratch);
    }
  }
}

void Product::pack_b(const ProductTask& task, const Area& area, std::int64_t k, std::int64_t count, float* to) const {
  const Way& by = way(task);
  PackSource source{.stride = task.b_stride, .k = count, .columns = area.columns, .type = task.b_type};
  if (task.b_transposed) {
    source.from = at(task.b, task.b_type, area.column * task.b_stride);
    source.first = k;
    source.tiled = std::clamp<std::int64_t>(task.b_tiled - area.column, 0, area.columns);
    by.packing.transposed(source, by.kernel.columns, to);
  } else {
    source.from = at(task.b, task.b_type, k * task.b_stride + area.column);
    by.packing.straight(source, by.kernel.columns, to);
  }
}

void Product::run_tile(const ProductTask& task, const Cut& cut, std::int64_t stripe, std::int64_t block, Scratch& scratch) const {
  const std::int64_t row = block * cut.rows, column = stripe * cut.stripe;
  const Area tile{row, column, std::min(cut.rows, task.m - row), std::min(cut.stripe, task.n - column)};
  const std::int64_t width = round_up(tile.columns, way(task).kernel.columns);
  for (std::int64_t pass = 0; pass < task.k; pass += cut.pass) {
    const std::int64_t pass_k = std::min(cut.pass, task.k - pass);
    const bool whole = pass_k == task.k;
    if (!whole || scratch.packed_stripe != stripe) {
      pack_b(task, tile, pass, pass_k, scratch.b);
      scratch.packed_stripe = stripe;
    }
    for (std::int64_t r = 0; r < tile.rows; r += cut.strip_rows) {
      const Area strip{row + r, column, std::min(cut.strip_rows, tile.rows - r), tile.columns};
      run_strip(task, strip, pass, pass_k, scratch.sums + (whole ? 0 : r * width), scratch);
    }
  }
}

// The next block of k: of A where it is copied or comes with a new pass, of B where it is packed.
void Product::fetch_block(const ProductTask& task, const Area& strip, std::int64_t k, bool a, bool b, Ahead& ahead) {
  const std::int64_t count = std::min(k_block, task.k - k);
  const auto add = [&](const void* from, DType type, std::int64_t stride, std::int64_t first, std::int64_t columns,
                       bool transposed) {
    if (transposed) {
      ahead.add(at(from, type, first * stride + k), type, stride, columns, count);
    } else {
      ahead.add(at(from, type, k * stride + first), type, stride, count, columns);
    }
  };
  if (b) add(task.b, task.b_type, task.b_stride, strip.column, strip.columns, task.b_transposed);
  if (a) add(task.a, task.a_type, task.a_stride, strip.row, strip.rows, !task.a_transposed);
}

void Product::fetch_operands(const ProductTask& task, const Area& strip, Ahead& ahead) {
  static_assert(std::tuple_size_v<decltype(Finish::operands)> <= Ahead::most_parts);
  for (const Rows& operand : task.finish.operands) {
    if (operand.data == nullptr) continue;
    ahead.add(at(operand.data, task.finish.type, strip.row * operand.stride + strip.column), task.finish.type, operand.stride,
              strip.rows, strip.columns);
  }
}

// The blocks of k from `pass` on, one after another; what is not finished stays in `sums`.
void Product::run_strip(const ProductTask& task, const Area& strip, std::int64_t pass, std::int64_t pass_k, float* sums,
                        const Scratch& scratch) const {
  const Way& by = way(task);
  const std::int64_t width = round_up(strip.columns, by.kernel.columns);
  float* c = task.c == nullptr ? nullptr : task.c + strip.row * task.c_stride + strip.column;
  for (std::int64_t k = pass; k < pass + pass_k; k += k_block) {
    const std::int64_t count = std::min(k_block, task.k - k);
    const bool first = k == 0, last = k + count == task.k;
    Ahead ahead;
    if (last) {
      fetch_operands(task, strip, ahead);
    } else {
      const bool new_pass = k + count == pass + pass_k, first_strip = sums == scratch.sums;
      fetch_block(task, strip, k + count, task.a_transposed || new_pass, new_pass && first_strip, ahead);
    }
    const bool from_c = first && task.accumulate, to_c = last && task.finish.apply == nullptr;
    run_block(task,
              {.area = strip,
               .k = k,
               .count = count,
               .b = scratch.b + (k - pass) / by.depth * width,
               .from = from_c ? c : (first ? nullptr : sums),
               .from_stride = from_c ? task.c_stride : width,
               .to = to_c ? c : sums,
               .to_stride = to_c ? task.c_stride : width,
               .exact = from_c || to_c,
               .ahead = &ahead},
              scratch);
    if (last && !to_c) task.finish.apply(task.finish.context, strip, sums, width);
  }
}

// Where a tile finds A: in its own rows, or, transposed or of bf16, in a copy of the strip's block.
Product::Strip Product::read_a(const ProductTask& task, const BlockStep& step, const Scratch& scratch) const {
  const Way& by = way(task);
  if (task.a_transposed) {
    const std::byte* a = at(task.a, task.a_type, step.k * task.a_stride + step.area.row);
    by.packing.straight({a, task.a_stride, step.count, step.area.rows, task.a_type}, by.kernel.rows, scratch.a);
    if (task.sums != nullptr && step.area.column == 0) {
      task.sum_rows(a, task.a_stride, step.count, step.area.rows, task.sums + step.area.row, task.accumulate || step.k > 0);
    }
    return {.from = scratch.a, .row = 1, .k = by.kernel.rows, .next_row = div_up(step.count, by.depth)};
  }
  const std::byte* a = at(task.a, task.a_type, step.area.row * task.a_stride + step.k);
  if (task.a_type == DType::f32) return {reinterpret_cast<const float*>(a), task.a_stride, 1, task.a_stride};
  by.packing.rows({a, task.a_stride, step.area.rows, step.count, task.a_type}, k_block, scratch.a);
  return {.from = scratch.a, .row = k_block, .k = 1, .next_row = k_block};
}

void Product::run_block(const ProductTask& task, const BlockStep& step, const Scratch& scratch) const {
  const Way& by = way(task);
  const std::int64_t rows = by.kernel.rows, panel = by.kernel.columns;
  const Strip a = read_a(task, step, scratch);
  TileStep tile{};
  tile.k = div_up(step.count, by.depth);
  tile.from_stride = step.from_stride;
  tile.to_stride = step.to_stride;
  tile.a_row = a.row;
  tile.a_k = a.k;
  for (std::int64_t column = 0; column < step.area.columns; column += panel) {
    const std::int64_t columns = std::min(panel, step.area.columns - column);
    tile.b = step.b + column * tile.k;
    for (std::int64_t row = 0; row < step.area.rows; row += rows) {
      const std::int64_t count = std::min(rows, step.area.rows - row);
      tile.a = a.from + row * a.next_row;
      tile.from = step.from == nullptr ? nullptr : step.from + row * step.from_stride + column;
      step.ahead->next(tile);
      tile.to = step.to + row * step.to_stride + column;
      if (columns == panel || !step.exact) {
        by.kernel.of_rows[static_cast<std::size_t>(count)](tile);
      } else {
        run_ragged(by.kernel, tile, count, columns, scratch);
      }
    }
  }
}

// The last panel of C itself: a whole panel is computed aside, and only its real columns touch C.
void Product::run_ragged(const Microkernel& kernel, const TileStep& step, std::int64_t rows, std::int64_t columns,
                         const Scratch& scratch) {
  TileStep aside = step;
  aside.from = nullptr;
  aside.to = scratch.edge;
  aside.to_stride = kernel.columns;
  kernel.of_rows[static_cast<std::size_t>(rows)](aside);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* block = scratch.edge + i * kernel.columns;
    for (std::int64_t j = 0; j < columns; ++j) {
      const float before = step.from == nullptr ? 0.0F : step.from[i * step.from_stride + j];
      step.to[i * step.to_stride + j] = step.from == nullptr ? block[j] : before + block[j];
    }
  }
}

}  // namespace lockstep::ops::cpu
