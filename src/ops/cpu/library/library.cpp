#include "ops/cpu/library/library.h"

#include "base/error.h"
#include "io/plugin.h"

namespace lockstep::ops::cpu {

bool has_library() { return io::open_plugin("onednn").object != nullptr; }

std::unique_ptr<Library> open_library(int threads) {
  const io::Plugin plugin = io::open_plugin("onednn");
  if (plugin.object != nullptr) return static_cast<LibraryPlugin*>(plugin.object)->open(threads);
  throw UserError("numerics.products=library is oneDNN's: " + plugin.problem,
                  plugin.loads
                      ? "install oneDNN (Debian: libdnnl-dev) and build again, or leave numerics.products=ours"
                      : "install the oneDNN that it was built with (Debian 12: libdnnl2), or leave numerics.products=ours");
}

bool library_has(DType type) {
  constexpr std::int64_t size = 64;
  return open_library(1)->prepare({size, size, size, size, size, size, false, true, false, type}) != nullptr;
}

}  // namespace lockstep::ops::cpu
