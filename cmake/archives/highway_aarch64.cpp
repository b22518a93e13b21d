// There is one instruction set.
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace hwy {

int64_t SupportedTargets() { return HWY_STATIC_TARGET; }

}  // namespace hwy
