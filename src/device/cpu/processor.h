#pragma once

// What the program asks of a processor beyond its vectors, which Highway knows. Each kind has a folder with its answers.

#include <cstdint>
#include <string_view>

namespace lockstep::cpu {

/// Where the system has no name of its own for it: "x86-64 processor".
std::string_view processor_kind();
/// The widest vectors, for people: "AVX-512 with bf16".
std::string_view vector_extensions();
/// Whether it has the instruction of AVX-512-bf16 that multiplies pairs of bf16.
bool multiplies_bf16_pairs();
/// Whether it has AMX's products of tiles of bf16, and the system lets this process use them.
bool multiplies_bf16_tiles();
bool is_made_by_amd();

/// From here on this thread's arithmetic takes denormals for zeros and rounds to nearest even. Returns what was, for
/// restore_arithmetic().
std::uint64_t flush_denormals();
void restore_arithmetic(std::uint64_t before);

}  // namespace lockstep::cpu
