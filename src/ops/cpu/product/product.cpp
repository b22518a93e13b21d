#include "ops/cpu/product/product.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <new>

#include "base/checked.h"
#include "ops/cpu/product/ahead.h"
#include "ops/cpu/product/tiles.h"

namespace lockstep::ops::cpu {
namespace {

constexpr std::int64_t edge_floats = 16 * 64;
// Words from a row of a copied strip of A to the next, where the kernel reads rows. A power of two would crowd a cache.
constexpr std::int64_t strip_row = k_block / 2 + 16;
constexpr std::int64_t worker_floats = Workspace::b + Workspace::strip + Workspace::sums + edge_floats;

// Element i of a matrix's memory.
const std::byte* at(const void* from, DType type, std::int64_t i) {
  return static_cast<const std::byte*>(from) + i * static_cast<std::int64_t>(size_of(type));
}

// While it lives, the thread may run the kernel.
class Opened {
 public:
  explicit Opened(const Microkernel& kernel) : kernel_(kernel) {
    if (kernel_.begin != nullptr) kernel_.begin();
  }
  ~Opened() {
    if (kernel_.end != nullptr) kernel_.end();
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  const Microkernel& kernel_;
};

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
  bool exact;  // `from` or `to` is C itself, or what it goes on from, which have no padding
  bool stream;
  Ahead* ahead;
};

Product::Way Product::floats(Isa isa) { return {microkernel_for(isa), packing_for(isa), thin_kernel_for(isa), 1}; }

Product::Way Product::bf16(Isa isa, Bf16Way way) {
  if (way == Bf16Way::widened) return floats(isa);
  const bool amx = way == Bf16Way::amx || way == Bf16Way::emulated_amx;
  return {bf16_microkernel_for(isa, way), bf16_packing_for(isa), bf16_thin_kernel_for(isa, way), 2, amx};
}

Product::Product(Team& team, Isa isa, MemorySource& memory, Bf16Way way)
    : team_(team),
      isa_(isa),
      floats_(floats(isa)),
      bf16_(bf16(isa, way)),
      memory_(memory.allocate(static_cast<std::size_t>(worker_floats * team.size() * 4 + most_stripe_parts * 4))) {
  auto* counters = reinterpret_cast<std::atomic<std::int32_t>*>(memory_.data() + worker_floats * team.size() * 4);
  for (std::int64_t i = 0; i < most_stripe_parts; ++i) new (counters + i) std::atomic<std::int32_t>(0);
  taken_blocks_ = counters;
}

Product::Scratch Product::scratch_of(int worker) const {
  float* base = reinterpret_cast<float*>(memory_.data()) + worker_floats * worker;
  return {base, base + Workspace::b, base + Workspace::b + Workspace::strip,
          base + Workspace::b + Workspace::strip + Workspace::sums, -1};
}

Cut Product::cut(const ProductTask& task, int threads) const {
  const Way& by = way(task);
  return cut_of(task, {by.kernel.rows, by.kernel.columns, by.depth, threads});
}

void Product::run(const ProductTask& task) {
  const bool thin = way(task).thin != nullptr && task.m <= ThinStep::most_rows && task.m * task.k <= Workspace::b;
  if (thin && task.b_transposed && !task.a_transposed && !task.accumulate && task.onto == nullptr) return run_thin(task);
  const Cut cuts = cut(task, team_.size());
  for (std::int64_t i = 0; i < cuts.parts * cuts.stripes; ++i) taken_blocks_[i].store(0, std::memory_order_relaxed);
  const std::int64_t workers = std::min<std::int64_t>(team_.size(), cuts.stripes * cuts.row_blocks);
  team_.for_each_affine(workers, [&](std::int64_t slot, int worker) { take_tiles(task, cuts, static_cast<int>(slot), worker); });
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
  const bool fits = k % tile_depth == 0 && tile_columns * words <= Workspace::b;
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
  const Cut cuts = cut(task, 1);
  Scratch scratch = scratch_of(worker);
  const Opened opened(way(task).kernel);
  for (std::int64_t stripe = 0; stripe < cuts.stripes; ++stripe)
    for (std::int64_t block = 0; block < cuts.row_blocks; ++block)
      run_tile(task, cuts, {stripe, block, task.m, stripe + 1 < cuts.stripes ? stripe + 1 : -1}, scratch);
}

// A worker stays with a stripe, whose packed form it has, while there are rows of its part; then goes on with the next one.
void Product::take_tiles(const ProductTask& task, const Cut& cut, int slot, int worker) {
  Scratch scratch = scratch_of(worker);
  const Opened opened(way(task).kernel);
  const std::int64_t count = cut.parts * cut.stripes, first = count * slot / team_.size();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = (first + i) % count, part = at / cut.stripes, stripe = at % cut.stripes;
    const std::int64_t next = i + 1 < count && cut.stripes > 1 ? (stripe + 1) % cut.stripes : -1;
    const std::int64_t begin = cut.row_blocks * part / cut.parts, end = cut.row_blocks * (part + 1) / cut.parts;
    for (;;) {
      const std::int64_t block = begin + taken_blocks_[at].fetch_add(1, std::memory_order_relaxed);
      if (block >= end) break;
      run_tile(task, cut, {stripe, block, std::min(task.m, end * cut.rows), next}, scratch);
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

void Product::run_tile(const ProductTask& task, const Cut& cut, const Tile& tile, Scratch& scratch) const {
  const std::int64_t row = tile.block * cut.rows, column = tile.stripe * cut.stripe;
  const Area area{row, column, std::min(cut.rows, task.m - row), std::min(cut.stripe, task.n - column)};
  const std::int64_t width = round_up(area.columns, way(task).kernel.columns);
  const auto strip_at = [&](std::int64_t r) {
    return Area{row + r, column, std::min(cut.strip_rows, area.rows - r), area.columns};
  };
  for (std::int64_t first = 0; first < task.k; first += cut.pass) {
    Pass pass{.first = first, .count = std::min(cut.pass, task.k - first), .pack = true, .next_strip = {}, .next_stripe = {}};
    const bool whole = pass.count == task.k;
    pass.pack = !whole || scratch.packed_stripe != tile.stripe;
    scratch.packed_stripe = tile.stripe;
    for (std::int64_t r = 0; r < area.rows; r += cut.strip_rows) {
      const bool last = r + cut.strip_rows >= area.rows;
      pass.next_strip = last ? Area{} : strip_at(r + cut.strip_rows);
      if (last && whole) {
        // The worker goes on with the next rows, if there are any.
        const std::int64_t next = row + cut.rows;
        if (next < tile.end_row) pass.next_strip = {next, column, std::min(cut.strip_rows, task.m - next), area.columns};
        const std::int64_t after = tile.next_stripe * cut.stripe;
        if (next >= tile.end_row && tile.next_stripe >= 0) pass.next_stripe = {0, after, 0, std::min(cut.stripe, task.n - after)};
      }
      run_strip(task, strip_at(r), pass, scratch.sums + (whole ? 0 : r * width), scratch);
      pass.pack = false;
    }
  }
  // Stores past the caches have no order of their own: they come before the worker says that it is done.
  if (task.stream) hwy::FlushStream();
}

void Product::fetch_a(const ProductTask& task, const Area& strip, std::int64_t k, Ahead& ahead) {
  const std::int64_t count = std::min(k_block, task.k - k);
  if (task.a_transposed) {
    ahead.add(at(task.a, task.a_type, k * task.a_stride + strip.row), task.a_type, task.a_stride, count, strip.rows);
  } else {
    ahead.add(at(task.a, task.a_type, strip.row * task.a_stride + k), task.a_type, task.a_stride, strip.rows, count);
  }
}

void Product::fetch_b(const ProductTask& task, const Area& stripe, std::int64_t k, Ahead& ahead) {
  const std::int64_t count = std::min(k_block, task.k - k);
  if (task.b_transposed) {
    ahead.add(at(task.b, task.b_type, stripe.column * task.b_stride + k), task.b_type, task.b_stride, stripe.columns, count);
  } else {
    ahead.add(at(task.b, task.b_type, k * task.b_stride + stripe.column), task.b_type, task.b_stride, count, stripe.columns);
  }
}

// What will be read after the block of k at `k`.
void Product::fetch_next(const ProductTask& task, const Area& strip, const Pass& pass, std::int64_t k, Ahead& ahead) {
  const std::int64_t next = k + k_block;
  const bool last = next >= task.k, last_of_pass = next >= pass.first + pass.count;
  if (last) fetch_operands(task, strip, ahead);
  if (pass.pack && !last_of_pass) fetch_b(task, strip, next, ahead);
  if (pass.next_stripe.columns > 0 && last) fetch_b(task, pass.next_stripe, 0, ahead);
  if (last_of_pass && !last && pass.next_strip.rows == 0) {
    fetch_b(task, strip, next, ahead);
  }
  if (!last_of_pass) {
    fetch_a(task, strip, next, ahead);
  } else if (pass.next_strip.rows > 0) {
    fetch_a(task, pass.next_strip, pass.first, ahead);
  }
}

void Product::fetch_operands(const ProductTask& task, const Area& strip, Ahead& ahead) {
  static_assert(std::tuple_size_v<decltype(Finish::operands)> <= Ahead::most_parts);
  for (const Rows& operand : task.finish.operands) {
    if (operand.data == nullptr) continue;
    ahead.add(at(operand.data, task.finish.type, strip.row * operand.stride + strip.column), task.finish.type, operand.stride,
              strip.rows, strip.columns);
  }
}

// The blocks of k of a pass, one after another; what is not finished stays in `sums`.
void Product::run_strip(const ProductTask& task, const Area& strip, const Pass& pass, float* sums, const Scratch& scratch) const {
  const Way& by = way(task);
  const std::int64_t width = round_up(strip.columns, by.kernel.columns);
  float* c = task.c == nullptr ? nullptr : task.c + strip.row * task.c_stride + strip.column;
  const float* before = task.accumulate ? c : nullptr;
  if (task.onto != nullptr) before = task.onto + strip.row * task.onto_stride + strip.column;
  const std::int64_t before_stride = task.accumulate ? task.c_stride : task.onto_stride;
  for (std::int64_t k = pass.first; k < pass.first + pass.count; k += k_block) {
    const std::int64_t count = std::min(k_block, task.k - k);
    const bool first = k == 0, last = k + count == task.k;
    float* const b = scratch.b + (k - pass.first) / by.depth * width;
    if (pass.pack) pack_b(task, strip, k, count, b);
    Ahead ahead(by.kernel);
    fetch_next(task, strip, pass, k, ahead);
    const bool goes_on = first && before != nullptr, to_c = last && task.finish.apply == nullptr;
    run_block(task,
              {.area = strip,
               .k = k,
               .count = count,
               .b = b,
               .from = first ? before : sums,
               .from_stride = goes_on ? before_stride : width,
               .to = to_c ? c : sums,
               .to_stride = to_c ? task.c_stride : width,
               .exact = goes_on || to_c,
               .stream = to_c && task.stream,
               .ahead = &ahead},
              scratch);
    if (last && !to_c) task.finish.apply(task.finish.context, strip, sums, width);
  }
}

// Where a tile finds A: in its own rows, or in a copy of the strip's block.
Product::Strip Product::read_a(const ProductTask& task, const BlockStep& step, const Scratch& scratch) const {
  const Way& by = way(task);
  if (task.a_transposed) {
    const std::byte* a = at(task.a, task.a_type, step.k * task.a_stride + step.area.row);
    const bool copied = task.copies_a(by.kernel.rows, by.depth);
    const PackSource source{a, task.a_stride, step.count, step.area.rows, task.a_type};
    if (copied && !by.a_in_rows) by.packing.straight(source, by.kernel.rows, scratch.a);
    if (copied && by.a_in_rows) by.packing.turned(source, strip_row, scratch.a);
    if (task.sums != nullptr && step.area.column == 0) {
      task.sum_rows(a, task.a_stride, step.count, step.area.rows, task.sums + step.area.row, task.accumulate || step.k > 0);
    }
    if (!copied) return {.from = reinterpret_cast<const float*>(a), .row = 1, .k = task.a_stride, .next_row = 1};
    if (by.a_in_rows) return {.from = scratch.a, .row = strip_row, .k = 1, .next_row = strip_row};
    return {.from = scratch.a, .row = 1, .k = by.kernel.rows, .next_row = div_up(step.count, by.depth)};
  }
  const std::byte* a = at(task.a, task.a_type, step.area.row * task.a_stride + step.k);
  const std::int64_t words = task.a_stride / by.depth;
  if (!task.copies_a(by.kernel.rows, by.depth)) return {reinterpret_cast<const float*>(a), words, 1, words};
  const std::int64_t row = by.a_in_rows ? strip_row : k_block;
  by.packing.rows({a, task.a_stride, step.area.rows, step.count, task.a_type}, row, scratch.a);
  return {.from = scratch.a, .row = row, .k = 1, .next_row = row};
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
  tile.stream = step.stream;
  for (std::int64_t column = 0; column < step.area.columns; column += panel) {
    const std::int64_t columns = std::min(panel, step.area.columns - column);
    tile.b = step.b + column * tile.k;
    for (std::int64_t row = 0; row < step.area.rows; row += rows) {
      const std::int64_t count = std::min(rows, step.area.rows - row);
      tile.rows = count;
      tile.a = a.from + row * a.next_row;
      tile.from = step.from == nullptr ? nullptr : step.from + row * step.from_stride + column;
      step.ahead->next(tile);
      tile.to = step.to + row * step.to_stride + column;
      if (columns == panel || !step.exact) {
        by.kernel.of_rows[static_cast<std::size_t>(count)](tile);
      } else {
        run_ragged(by.kernel, tile, columns, scratch);
      }
    }
  }
}

// The last panel of C itself: a whole panel is computed aside, and only its real columns touch C.
void Product::run_ragged(const Microkernel& kernel, const TileStep& step, std::int64_t columns, const Scratch& scratch) {
  TileStep aside = step;
  aside.from = nullptr;
  aside.to = scratch.edge;
  aside.to_stride = kernel.columns;
  aside.stream = false;
  kernel.of_rows[static_cast<std::size_t>(step.rows)](aside);
  for (std::int64_t i = 0; i < step.rows; ++i) {
    const float* block = scratch.edge + i * kernel.columns;
    for (std::int64_t j = 0; j < columns; ++j) {
      const float before = step.from == nullptr ? 0.0F : step.from[i * step.from_stride + j];
      step.to[i * step.to_stride + j] = step.from == nullptr ? block[j] : before + block[j];
    }
  }
}

}  // namespace lockstep::ops::cpu
