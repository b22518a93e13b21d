#include "emulation/planted.h"

#include <cstdlib>

namespace lockstep::emulation {
namespace {

const int chosen = std::getenv("LOCKSTEP_PLANTED") == nullptr ? 0 : std::atoi(std::getenv("LOCKSTEP_PLANTED"));

}  // namespace

bool planted(int number) { return number == chosen; }

}  // namespace lockstep::emulation
