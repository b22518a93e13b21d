#pragma once

#include <functional>

namespace lockstep::test {

/// Calls body() for each kind of GPU whose tensor cores have kernels of their own: with products of warpgroups, which Hopper has,
/// and without. An emulated GPU becomes each; one that is there is what it is.
void for_gpu_kinds(const std::function<void()>& body);

}  // namespace lockstep::test
