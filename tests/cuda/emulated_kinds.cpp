#include <gtest/gtest.h>

#include "emulation/machine.h"
#include "gpu_kinds.h"

namespace lockstep::test {

void for_gpu_kinds(const std::function<void()>& body) {
  for (const int capability : {90, 80}) {
    SCOPED_TRACE(capability);
    emulation::machine().capability = capability;
    body();
  }
  emulation::machine() = {};
}

}  // namespace lockstep::test
