#pragma once

// What a parameter server keeps: its part of every unit, and room for what workers push. Declared from sizes alone.

#include <string>
#include <vector>

#include "layout/key_ranges.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

struct ServerMemory {
  struct Keeps {
    bool rows;                       ///< a tied matrix's rows come apart from the rest of its gradient
    std::vector<std::string> slots;  ///< names of what the optimizer keeps here
    DType type, slot_type;           ///< of weights, and of slots
    DType pushed;                    ///< of what workers push
  };
  /// `all`: which server holds what. `server`: the number of this one, from 0.
  ServerMemory(layout::KeyRanges all, Keeps kept, int server);
  ServerMemory(const ServerMemory&) = delete;
  ServerMemory& operator=(const ServerMemory&) = delete;
  void declare(Arena& parameters, Arena& optimizer, Arena& gradients);

  /// This server's part of a unit. All tensors are [range.count], and are not to be used when that is 0.
  struct Part {
    UnitIndex unit;
    layout::Range range;
    Tensor weights;
    std::vector<Tensor> slots, pushed;  ///< by name; by worker
  };
  layout::KeyRanges ranges;
  Keeps keeps;
  int number;
  std::vector<Part> parts;   ///< one a unit, in the order of units
  std::vector<Tensor> rows;  ///< by worker: a tied matrix's rows, when these come apart; may be empty
};

}  // namespace lockstep::parallel
