#pragma once

// Faults that tests/emulation/mutation/plant writes into copies of kernels: one of them is there at a time.

namespace lockstep::emulation {

/// Whether fault `number` is active: LOCKSTEP_PLANTED names the one.
bool planted(int number);

}  // namespace lockstep::emulation
