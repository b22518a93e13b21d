#pragma once

// The text that `demo` trains on: sentences of a small grammar.

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::app {

/// At least `bytes` of that text, in whole sentences; a function of the seed alone.
std::string demo_text(std::uint64_t seed, std::size_t bytes);

}  // namespace lockstep::app
