#pragma once

// What the parts of the emulation share: counts, and places as text.

#include <string>

#include "emulation/block.h"
#include "emulation/emulation.h"

namespace lockstep::emulation {

Counts& tally();
/// "file:line".
std::string text(const Place& at);

}  // namespace lockstep::emulation
