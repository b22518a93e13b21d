#pragma once

// How long a chunk needs what it keeps of a micro-batch, and so how many slots that takes. All of it follows from the list of
// actions. Lives of one kind begin and end in the order of micro-batches, so micro-batch m has slot m % slots.

#include <string_view>
#include <vector>

#include "layout/pipeline/pipeline_schedule.h"

namespace lockstep::layout {

/// What goes through the micro-batches of a chunk in order: its three passes, and messages.
enum class Stream : std::uint8_t {
  forward,
  input_backward,
  weight_backward,
  receive_input,
  send_output,
  receive_gradient,
  send_gradient,
  count
};
std::string_view name_of(Stream stream);
bool belongs(Action::Kind kind, Stream stream);

/// Where in a list each action stands.
class Places {
 public:
  Places(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches);
  int microbatches() const { return microbatches_; }
  /// The number in the list of the action of `chunk`, `stream` and `microbatch`. -1: there is none.
  int at(int chunk, Stream stream, int microbatch) const { return places_[place(chunk, stream, microbatch)]; }
  bool has(int chunk, Stream stream) const { return at(chunk, stream, 0) >= 0; }
  /// Whether the chunk, which has no embedding, gets its input from the chunk before it on this rank.
  bool input_from_here(int chunk) const {
    return !chunks_[static_cast<std::size_t>(chunk)].embedding && !has(chunk, Stream::receive_input);
  }

 private:
  std::size_t place(int chunk, Stream stream, int microbatch) const {
    const auto streams = static_cast<std::size_t>(Stream::count), microbatches = static_cast<std::size_t>(microbatches_);
    return (static_cast<std::size_t>(chunk) * streams + static_cast<std::size_t>(stream)) * microbatches +
           static_cast<std::size_t>(microbatch);
  }
  const std::vector<Chunk>& chunks_;
  int microbatches_;
  std::vector<int> places_;
};

/// The number of slots of each kind that a chunk needs.
struct ChunkLives {
  int kept = 0;       ///< what only the input's gradient needs: from forward to input_backward
  int activated = 0;  ///< what weight gradients need as well: from forward to weight_backward
  int deferred = 0;   ///< what weight gradients need of input_backward, until a later weight_backward
  int inputs = 0;     ///< the chunk's input, where it has no embedding: from its arrival to input_backward
  int outputs = 0;    ///< the output until it is sent; one with the head
  int gradients = 0;  ///< the output's gradient, which becomes the input's, until the latter is sent or used up
  /// The chunk whose `gradients` are used: this one, or one behind it on the same rank, which hands them over.
  int gradients_of = 0;
  bool immediate = false;  ///< some micro-batch has its weight gradients at once
};
/// The lives of all chunks of a rank. Throws BrokenRule, with the first of problems_of(), when there is one.
std::vector<ChunkLives> lives_of(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches);

/// Micro-batches to which some unit's gradient may be added at the same time.
int open_microbatches(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches);

}  // namespace lockstep::layout
