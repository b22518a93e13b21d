// libFuzzer's entry, which replay.cpp calls too.

#include <cstdint>

#include "base/error.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    lockstep::fuzz::read({reinterpret_cast<const std::byte*>(data), size});
  } catch (const lockstep::UserError&) {
    return 0;  // as it should be
  }
  return 0;
}
