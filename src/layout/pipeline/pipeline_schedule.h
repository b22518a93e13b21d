#pragma once

// What a rank does in a step, as data: a list of actions that the runner executes, and that can be checked and drawn without
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
    send_output,       ///< to the rank that has its successor
    receive_gradient,  ///< of the output, from there
    send_gradient      ///< of the input
  } kind;
  Microbatch microbatch;
  int chunk = 0;  ///< of the rank's, which are in the model's order
  friend bool operator==(const Action&, const Action&) = default;
};
std::string to_string(const Action& action);

/// What is wrong with a rank's list; empty: nothing. Each of a chunk's passes and messages goes through the micro-batches of a
/// step in order, each once, and behind what it needs. Sums over micro-batches have that order: in another one their bits would
/// differ. A chunk without embedding (head) and without messages has its neighbour on this rank.
std::vector<std::string> problems_of(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches);

}  // namespace lockstep::layout
