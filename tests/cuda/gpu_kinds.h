#pragma once

#include <functional>

namespace lockstep::test {

/// Calls body() for each kind of GPU whose tensor cores have kernels of their own: with Hopper's products of warpgroups, and
/// without. An emulated GPU becomes each kind in turn. A real GPU runs body() as its own kind.
void for_gpu_kinds(const std::function<void()>& body);

}  // namespace lockstep::test
