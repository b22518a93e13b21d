#pragma once

// The inner loops of the product. A call takes a block of at most 256 k and a tile of a few rows and one panel of columns. The
// tile is held in registers. Element (i, j) is one chain of fused multiply-adds in order of k from zero, whatever the tile.

#include <array>
#include <cstdint>

#include "ops/cpu/options.h"
#include "ops/cpu/product/bf16_way.h"

namespace lockstep::ops::cpu {

/// One tile, of `rows` rows. `to` = `from` + block, or the block itself when `from` is null; `from` may be `to`.
struct TileStep {
  std::int64_t rows;
  const float* a;  ///< element (i, k) at a[i * a_row + k * a_k]
  std::int64_t a_row, a_k;
  const float* b;  ///< packed panel: element (k, j) at b[k * columns + j], aligned to 64 bytes
  std::int64_t k;
  const float* from;
  std::int64_t from_stride;
  float* to;
  std::int64_t to_stride;
  /// A hint that a kernel may ignore: memory that will be read soon. For every four k a kernel may fetch Microkernel::ahead_bytes
  /// bytes, each time `ahead_stride` bytes further on. Null: none.
  const void* ahead = nullptr;
  std::int64_t ahead_stride = 0;
  bool stream = false;  ///< a hint, too: `to` is not read soon (ProductTask::stream)
};

using TileKernel = void (*)(const TileStep&);

struct Microkernel {
  static constexpr int most_rows = 32;
  int rows;                                       ///< of a full tile
  int columns;                                    ///< of a panel
  std::array<TileKernel, most_rows + 1> of_rows;  ///< [r]: the kernel for r rows, 1 <= r <= rows
  int ahead_bytes = 64;                           ///< bytes of a row that it fetches ahead at a time
  void (*begin)() = nullptr;                      ///< what a thread does before its first tile of a product, or null
  void (*end)() = nullptr;                        ///< what a thread does after its last tile of a product, or null
};

/// `isa` must be one of available_isas().
Microkernel microkernel_for(Isa isa);
/// The kernel for words of two bf16, by the instruction or emulated. Its tiles are 14 x 32 in the order of pairs and 32 x 32 in
/// that of AMX. AMX's `a` is in rows (a_k = 1).
Microkernel bf16_microkernel_for(Isa isa, Bf16Way way);

/// 6 x 16 in assembly: g++ 12 spills the accumulators of the same loop written with intrinsics.
void tile_6x16_avx2(const TileStep& step);
/// 14 x 32 in assembly. Intrinsics leave row offsets on the stack and no register for fetching ahead (6 % slower from L1).
void tile_14x32_avx512(const TileStep& step);
/// 14 x 32 of words of two bf16, by the instruction; `a` in rows (a_k = 1) or packed in strips.
void tile_14x32_pairs(const TileStep& step);
/// Up to 32 x 32 by AMX; `a` in rows (a_k = 1). The thread calls begin_amx() before its first tile and end_amx() behind its last.
void tile_32x32_amx(const TileStep& step);
void begin_amx();
void end_amx();

}  // namespace lockstep::ops::cpu
