#pragma once

// Names of kernels in messages.

#include <string>

namespace lockstep::emulation {

/// The function that begins at this address, as addr2line names it; its address where there is no such program.
std::string symbol_of(const void* address);

}  // namespace lockstep::emulation
