#pragma once

// Our own product with a fixed order of additions (numerics.md section 3.1): an element is a function of its row, its column and
// K. Blocks of 256 k are added in order, onto C when the task accumulates. Tiles, packing, threads and the instruction set (AVX2
// or wider) change no bit. Each operand is f32 or bf16, which is widened: the additions are the same. Two bf16 operands have two
// more orders, of AVX-512-bf16 and of AMX (bf16_way.h). All this holds for them, too.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/memory.h"
#include "device/team.h"
#include "ops/cpu/product/bf16_way.h"
#include "ops/cpu/product/cut.h"
#include "ops/cpu/product/microkernel.h"
#include "ops/cpu/product/pack.h"
#include "ops/cpu/product/thin.h"

namespace lockstep::ops::cpu {

/// A rectangle of C.
struct Area {
  std::int64_t row, column, rows, columns;
};

/// A matrix in host memory, whose row i is `i * stride` elements after the first. Null: there is none.
struct Rows {
  std::byte* data = nullptr;
  std::int64_t stride = 0;
};

/// What is done with finished elements while they are in cache: apply(context, area, from, stride) writes them to C.
struct Finish {
  void (*apply)(const void* context, const Area& area, const float* from, std::int64_t stride) = nullptr;
  const void* context = nullptr;
  std::array<Rows, 5> operands = {};  ///< what apply() reads or writes, as large as C: it is fetched before the call
  DType type = DType::f32;            ///< of the operands
};

/// Adds rows [0, rows) of `count` columns onto `sums` (or sets them) in blocks of 64 rows, each summed in order. The elements
/// are of A's type.
using SumRows = void (*)(const void* from, std::int64_t stride, std::int64_t rows, std::int64_t count, float* sums, bool add);

/// C [m, n] (+)= A [m, k] B [k, n].
struct ProductTask {
  std::int64_t m, n, k;
  const void* a;
  std::int64_t a_stride;
  bool a_transposed;  ///< element (i, k) lies at a[k * a_stride + i], else at a[i * a_stride + k]
  DType a_type = DType::f32;
  const void* b;
  std::int64_t b_stride;
  bool b_transposed;  ///< element (k, j) lies at b[j * b_stride + k], else at b[k * b_stride + j]
  DType b_type = DType::f32;
  /// so many columns at the beginning, a whole number of tiles, lie in tiles (tiles.h); with b_transposed
  std::int64_t b_tiled = 0;
  float* c;  ///< not used when there is a finish
  std::int64_t c_stride;
  bool accumulate = false;
  Finish finish = {};           ///< takes the place of storing to c; not together with accumulate
  const float* onto = nullptr;  ///< [m, n] or null, with a finish: what the blocks of k are added onto
  std::int64_t onto_stride = 0;
  /// C is not read soon. Tiles that can store it past the caches, so that its lines need not be read first.
  bool stream = false;
  float* sums = nullptr;       ///< [m] or null, with a_transposed: (+)= the sum over k of A, taken while A is in cache
  SumRows sum_rows = nullptr;  ///< makes `sums`

  /// Whether a strip of A is copied first, and not read where it lies. `tile_rows` are a tile's rows, `depth` the elements of its
  /// words. The copy makes words of elements that are not words yet. It avoids lines a multiple of 4 KiB apart: a first-level
  /// cache has 8 to 12 places for such addresses. Tiles of up to 8 rows (AVX2's) read columns of A from packed strips alone.
  bool copies_a(std::int64_t tile_rows, std::int64_t depth) const {
    const bool aligned = reinterpret_cast<std::uintptr_t>(a) % sizeof(float) == 0 && a_stride % 2 == 0;
    const bool pairs = a_type == DType::bf16 && depth == 2 && !a_transposed && aligned && k % 2 == 0;
    if (!pairs && a_type != DType::f32) return true;
    return tile_rows > 8 ? a_stride * static_cast<std::int64_t>(size_of(a_type)) % 4096 == 0 : a_transposed;
  }
};

class Ahead;

class Product {
 public:
  /// `team` must outlive it. Takes its whole workspace from `memory` now.
  Product(Team& team, Isa isa, MemorySource& memory, Bf16Way way);
  Product(Team& team, Isa isa, MemorySource& memory, Bf16Order order = Bf16Order::automatic)
      : Product(team, isa, memory, way_of(order, isa)) {}

  /// m, n, k >= 1. Uses the whole team.
  void run(const ProductTask& task);
  /// run() on the calling worker alone, inside a call of the team.
  void run_alone(const ProductTask& task, int worker);
  /// Stores a transposed B, [n, k] dense, in tiles; `to` may be `from`. Returns how many columns lie in tiles then; the others
  /// are copied. 0: none, and nothing was done. Uses the whole team.
  std::int64_t store_in_tiles(const void* from, void* to, DType type, std::int64_t n, std::int64_t k);
  std::int64_t workspace_bytes() const { return static_cast<std::int64_t>(memory_.size()); }
  Team& team() const { return team_; }
  Isa isa() const { return isa_; }

 private:
  // How operands are read: in words of one element or, bf16 in pairs, of two.
  struct Way {
    Microkernel kernel;
    Packing packing;
    ThinKernel thin;         // null: products of few rows are made as those of many
    std::int64_t depth;      // k in a word
    bool a_in_rows = false;  // the kernel reads A in rows alone
  };
  // A worker's memory: a stripe of B, strips of A, sums of a tile, and one small tile for ragged edges.
  struct Scratch {
    float *b, *a, *sums, *edge;
    std::int64_t packed_stripe;
  };
  // A block of rows of a stripe. `end_row` is the row behind the part that the block belongs to. `next_stripe` is the stripe that
  // the worker will probably take next (-1: none).
  struct Tile {
    std::int64_t stripe, block, end_row, next_stripe;
  };
  // The blocks of k from `first` on that the packed stripe holds. `pack`: the stripe is not packed yet, and the first strip of
  // rows packs it.
  struct Pass {
    std::int64_t first, count;
    bool pack;
    Area next_strip;   // what comes after this strip; no rows: nothing that is known
    Area next_stripe;  // whose B comes after this pass; no columns: none, or not yet
  };

  static Way floats(Isa isa);
  static Way bf16(Isa isa, Bf16Way way);
  const Way& way(const ProductTask& task) const {
    return task.a_type == DType::bf16 && task.b_type == DType::bf16 ? bf16_ : floats_;
  }
  Cut cut(const ProductTask& task, int threads) const;
  void run_thin(const ProductTask& task);
  void take_tiles(const ProductTask& task, const Cut& cut, int slot, int worker);
  void run_tile(const ProductTask& task, const Cut& cut, const Tile& tile, Scratch& scratch) const;
  void pack_b(const ProductTask& task, const Area& area, std::int64_t k, std::int64_t count, float* to) const;
  struct BlockStep;
  // A block of k of a strip of A. Element (i, k) of the tile at row r lies at `from[r * next_row + i * row + k * this->k]`.
  struct Strip {
    const float* from;
    std::int64_t row, k, next_row;
  };
  static void fetch_a(const ProductTask& task, const Area& strip, std::int64_t k, Ahead& ahead);
  static void fetch_b(const ProductTask& task, const Area& stripe, std::int64_t k, Ahead& ahead);
  static void fetch_next(const ProductTask& task, const Area& strip, const Pass& pass, std::int64_t k, Ahead& ahead);
  static void fetch_operands(const ProductTask& task, const Area& strip, Ahead& ahead);
  Strip read_a(const ProductTask& task, const BlockStep& step, const Scratch& scratch) const;
  void run_strip(const ProductTask& task, const Area& strip, const Pass& pass, float* sums, const Scratch& scratch) const;
  void run_block(const ProductTask& task, const BlockStep& step, const Scratch& scratch) const;
  static void run_ragged(const Microkernel& kernel, const TileStep& step, std::int64_t columns, const Scratch& scratch);
  Scratch scratch_of(int worker) const;

  Team& team_;
  Isa isa_;
  Way floats_, bf16_;  // bf16_: for two bf16 operands
  Memory memory_;
  std::atomic<std::int32_t>* taken_blocks_;  // per part of a stripe: how many blocks of rows were taken
};

}  // namespace lockstep::ops::cpu
