// Where only the processor's kernels are compared.

#include "support/ops.h"

namespace lockstep::test {

[[gnu::weak]] std::vector<std::unique_ptr<Machine>> other_machines() { return {}; }

}  // namespace lockstep::test
