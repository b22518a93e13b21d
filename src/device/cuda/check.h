#pragma once

// Errors of CUDA's runtime as exceptions that say what to do.

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"

namespace lockstep::cuda {

/// Throws when `error` is not success: UserError where the user can mend it, else SystemError. `what` names the call.
void check(cudaError_t error, const char* what);

/// A version of CUDA as text: "13.1" for 13010.
std::string version_text(int version);

/// What is wrong with the machine when the runtime's first call says `error`. `driver` is the newest CUDA that the driver knows,
/// as cudaDriverGetVersion tells it; 0: there is no driver.
Problem machine_problem(cudaError_t error, int driver);

}  // namespace lockstep::cuda
