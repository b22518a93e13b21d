#include "app/gpu/device_option.h"

#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/cuda/cuda_runtime.h"
#include "lab/machine.h"
#include "planner/machine.h"

namespace lockstep::app {

void tell_of_device_option(const std::function<void()>& open) {
  try {
    open();
  } catch (const UserError& error) {
    std::vector<Problem> problems = error.problems();
    constexpr std::string_view setting = "train.device=";
    for (Problem& problem : problems) {
      for (std::string* text : {&problem.message, &problem.remedy}) {
        const std::size_t at = text->find(setting);
        if (at != std::string::npos) text->replace(at, setting.size(), "--device ");
      }
    }
    throw UserError(std::move(problems));
  }
}

double peak_flops(Runtime& runtime) {
  if (runtime.device().is_host()) return lab::fma_peak(runtime.team());
  const planner::Machine* preset = planner::machine_with(cuda::facts_of_gpu(runtime.device().index).gpu);
  return preset != nullptr ? preset->peak_flops : 0;
}

}  // namespace lockstep::app
