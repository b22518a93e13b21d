#include "base/error.h"
#include "ops/cpu/library/library.h"

namespace lockstep::ops::cpu {

bool has_library() { return false; }

std::unique_ptr<Library> open_library(int /*threads*/) {
  throw UserError("numerics.products=library: this program was built without oneDNN",
                  "install it (Debian: libdnnl-dev) and build again, or leave numerics.products=ours");
}

bool library_has(DType /*type*/) {
  open_library(1);
  return false;
}

}  // namespace lockstep::ops::cpu
