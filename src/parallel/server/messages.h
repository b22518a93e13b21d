#pragma once

// What workers and parameter servers say to each other. A worker calls a server. The server does what the call asks for, and
// answers. All messages go between one worker and one server, in order.

#include <cstddef>
#include <span>
#include <type_traits>

#include "tensor/tensor.h"

namespace lockstep::parallel {

/// What a worker calls a server for.
enum class Errand : int {
  push,   ///< its parts of every unit (KeyRanges::order), rows of a tied matrix where they are kept apart, then Figures;
          ///< the answer: the new weights and an Answer
  pull,   ///< the answer: the weights
  load,   ///< weights and the optimizer's slots, which the server takes over; no answer
  slots,  ///< the answer: the slots, and how many updates made them what they are
  leave,  ///< the worker will not call again
};

// Messages are made of doubles, which hold every count exactly.

struct Call {
  double errand = 0;
  double step = 0;     ///< optimizer steps that the worker has done
  double updates = 0;  ///< of a load: the updates that made what is loaded
};

/// What a worker tells with its push.
struct Figures {
  double learning_rate = 0;
  double clip_factor = 1;
  double finite = 1;      ///< 0: the gradient is not to be used; where weights are pushed: the worker has left the step out
  double loss_sum = 0;    ///< of the worker's own tokens
  double targets = 0;     ///< how many of these are targets
  double wants_halt = 0;  ///< 1: all workers should meet after the same step
};

/// What a server answers to a push.
struct Answer {
  double norm = 0;                                           ///< of the gradient of all workers, where servers know it
  double loss = 0;                                           ///< of the workers' last steps: one mean over all their targets
  double updates = 0, staleness_sum = 0, staleness_max = 0;  ///< of the run so far
  double made = 0;                                           ///< updates that made the weights, those before the run too
  double meet_at = 0;                                        ///< the step after which all workers meet; 0: none is agreed
  double stop_cause = 0;                                     ///< a cause to stop that the server found; 0: none
};

/// A message as the tensor that is sent and received.
template <class Message>
Tensor record(Message& message) {
  static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) % sizeof(double) == 0);
  const std::span<double> values(reinterpret_cast<double*>(&message), reinterpret_cast<double*>(&message + 1));
  return view(values, Shape{std::ssize(values)});
}

}  // namespace lockstep::parallel
