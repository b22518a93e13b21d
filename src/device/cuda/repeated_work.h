#pragma once

// Work of a stream that is kept as a graph, and done again without a call for each kernel (CUDA C++ Programming Guide, "CUDA
// Graphs").

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "device/kept_work.h"

namespace lockstep::cuda {

/// What a stream makes of the work that it is given.
class WorkGate {
 public:
  enum class State : std::uint8_t {
    open,  ///< CUDA gets it
    kept,  ///< CUDA gets it for a graph
    shut   ///< a graph does it already
  };
  /// Whether CUDA is to get this work: `what` of a size or an address. To be asked for each kernel, copy and fill.
  bool lets(const void* what, std::size_t size) {
    if (state_ == State::open) return true;
    print_ = (print_ ^ reinterpret_cast<std::uintptr_t>(what) ^ (size << 32U)) * 0x100000001b3ULL;  // FNV-1a
    return state_ == State::kept;
  }
  bool open() const { return state_ == State::open; }
  /// Calls `issue` with the gate in this state. Returns a hash of the work that it was asked for.
  std::uint64_t during(State state, const std::function<void()>& issue);

 private:
  State state_ = State::open;
  std::uint64_t print_ = 0;
};

/// Calls `issue`, which gives `stream` the same work at every call with `kept`. CUDA loads kernels when they are first launched,
/// so the first call keeps nothing. The second one makes a graph. Later ones start it, and what `issue` gives out goes nowhere.
/// Throws BrokenRule where the work was another.
void repeat(cudaStream_t stream, WorkGate& gate, std::unique_ptr<KeptWork>& kept, const std::function<void()>& issue);

}  // namespace lockstep::cuda
