#pragma once

// AMX in words of two bf16 (Intel's manual, volume 1, chapter 18; instructions in volume 2). A tile's register is named by a
// number in quotes.

#include <array>
#include <cstddef>
#include <cstdint>

#define LOCKSTEP_TILE_LOAD(tile, from, bytes) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" tile : : "r"(from), "r"(static_cast<std::int64_t>(bytes)) : "memory")
#define LOCKSTEP_TILE_STORE(tile, to, bytes) \
  asm volatile("tilestored %%tmm" tile ", (%0,%1,1)" : : "r"(to), "r"(static_cast<std::int64_t>(bytes)) : "memory")
#define LOCKSTEP_TILE_CLEAR(tile) asm volatile("tilezero %%tmm" tile : : :)
/// sums [rows, columns] += a [rows, words] b [words, columns].
#define LOCKSTEP_TILE_MULTIPLY(sums, a, b) asm volatile("tdpbf16ps %%tmm" b ", %%tmm" a ", %%tmm" sums : : :)

namespace lockstep::ops::cpu {

inline constexpr std::int64_t tile_words = 16;  ///< words of k in a multiplication

/// What LDTILECFG reads.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> bytes_of_row{};
  std::array<std::uint8_t, 16> rows{};

  constexpr void set(std::size_t tile, std::int64_t count, std::int64_t floats) {
    rows[tile] = static_cast<std::uint8_t>(count);
    bytes_of_row[tile] = static_cast<std::uint16_t>(floats * 4);
  }
};

inline void begin_tiles(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory"); }
inline void end_tiles() { asm volatile("tilerelease" : : :); }

}  // namespace lockstep::ops::cpu
