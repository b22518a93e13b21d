#pragma once

// What a fuzzer feeds. Each target is one source that defines read(); the runner (libFuzzer's, or replay.cpp's main, which goes
// through files) calls it with bytes. A UserError is what bad input should give; whatever else escapes is a bug.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/error.h"

namespace lockstep::fuzz {

/// The code under test.
void read(std::span<const std::byte> input);

inline std::string_view text_of(std::span<const std::byte> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace lockstep::fuzz
