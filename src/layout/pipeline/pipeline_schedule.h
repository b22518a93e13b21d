#pragma once

// What a rank does in a step, as data: a list of actions that the runner executes. The list can be checked and drawn without
// executing it. A rank has one chunk of the model or several.

#include <cstdint>
#include <string>
#include <vector>

#include "base/strong.h"
#include "layout/range.h"

namespace lockstep::layout {

/// Neighbouring blocks that are run together, with the embedding before them, the head behind them, both or neither.
struct Chunk {
  Range blocks;
  bool embedding = false, head = false;
};

struct Action {
  enum class Kind : std::uint8_t {
    forward,           ///< through the chunk; with the head the loss, and the head's gradients
    backward,          ///< input_backward and weight_backward in one
    input_backward,    ///< gradients of the chunk's input, of norms and of the embedding
    weight_backward,   ///< gradients of the blocks' matrices and their biases
    receive_input,     ///< from the rank that has the chunk's predecessor
    send_output,       ///< to the rank that has the chunk's successor
    receive_gradient,  ///< of the chunk's output, from the successor's rank
    send_gradient      ///< of the chunk's input, to the predecessor's rank
  } kind;
  Microbatch microbatch;
  int chunk = 0;  ///< number among the rank's chunks, which are in the model's order
  friend bool operator==(const Action&, const Action&) = default;
};
std::string to_string(const Action& action);

/// What is wrong with a rank's list; empty: nothing. Each of a chunk's passes and messages goes through the micro-batches of a
/// step in order. Each comes once, and behind what it needs. Sums over micro-batches have that order: in another order their bits
/// would differ. A chunk that has no embedding and receives no input has the chunk before it on the same rank. A chunk that has
/// no head and sends no output has the chunk behind it there.
std::vector<std::string> problems_of(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches);

}  // namespace lockstep::layout
