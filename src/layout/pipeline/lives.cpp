#include "layout/pipeline/lives.h"

#include <algorithm>
#include <array>
#include <limits>

namespace lockstep::layout {

using Kind = Action::Kind;

std::string_view name_of(Stream stream) {
  static constexpr std::array<std::string_view, 7> names{"the forward pass",    "the input backward", "the weight backward",
                                                         "receiving the input", "sending the output", "receiving the gradient",
                                                         "sending the gradient"};
  return names[static_cast<std::size_t>(stream)];
}

bool belongs(Kind kind, Stream stream) {
  switch (stream) {
    case Stream::forward:
      return kind == Kind::forward;
    case Stream::input_backward:
      return kind == Kind::input_backward || kind == Kind::backward;
    case Stream::weight_backward:
      return kind == Kind::weight_backward || kind == Kind::backward;
    case Stream::receive_input:
      return kind == Kind::receive_input;
    case Stream::send_output:
      return kind == Kind::send_output;
    case Stream::receive_gradient:
      return kind == Kind::receive_gradient;
    case Stream::send_gradient:
      return kind == Kind::send_gradient;
    case Stream::count:
      return false;
  }
  return false;
}

Places::Places(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches)
    : chunks_(chunks),
      microbatches_(microbatches),
      places_(chunks.size() * static_cast<std::size_t>(Stream::count) * static_cast<std::size_t>(microbatches), -1) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    for (int s = 0; s < static_cast<int>(Stream::count); ++s) {
      const auto stream = static_cast<Stream>(s);
      if (belongs(actions[i].kind, stream))
        places_[place(actions[i].chunk, stream, actions[i].microbatch.value)] = static_cast<int>(i);
    }
  }
}

namespace {

/// From one place in the list to another, both included; of one micro-batch.
struct Life {
  int first, last;
};

/// The most of `lives`, in order of micro-batches, that overlap.
int most_at_once(const std::vector<Life>& lives) {
  int most = 0;
  for (std::size_t m = 0, oldest = 0; m < lives.size(); ++m) {
    while (lives[oldest].last < lives[m].first) ++oldest;
    most = std::max(most, static_cast<int>(m - oldest) + 1);
  }
  return most;
}

class Counting {
 public:
  Counting(const Places& places, const std::vector<Chunk>& chunks) : places_(places), chunks_(chunks) {}

  /// Slots for what lives from one stream of a chunk to a stream of a chunk (another one, where it is handed over).
  int slots(int first_chunk, Stream first, int last_chunk, Stream last) const {
    std::vector<Life> lives;
    for (int m = 0; m < places_.microbatches(); ++m) {
      lives.push_back({places_.at(first_chunk, first, m), places_.at(last_chunk, last, m)});
    }
    return most_at_once(lives);
  }
  /// Between the two backward passes, for those micro-batches that have two.
  int deferred(int chunk) const {
    std::vector<Life> lives;
    for (int m = 0; m < places_.microbatches(); ++m) {
      lives.push_back({places_.at(chunk, Stream::input_backward, m), places_.at(chunk, Stream::weight_backward, m)});
    }
    const bool any = std::ranges::any_of(lives, [](const Life& life) { return life.first < life.last; });
    return any ? most_at_once(lives) : 0;
  }
  bool immediate(int chunk) const {
    for (int m = 0; m < places_.microbatches(); ++m) {
      if (places_.at(chunk, Stream::input_backward, m) == places_.at(chunk, Stream::weight_backward, m)) return true;
    }
    return false;
  }
  ChunkLives of(int chunk) const {
    const Chunk& c = chunks_[static_cast<std::size_t>(chunk)];
    ChunkLives lives{.kept = slots(chunk, Stream::forward, chunk, Stream::input_backward),
                     .activated = slots(chunk, Stream::forward, chunk, Stream::weight_backward),
                     .deferred = deferred(chunk),
                     .gradients_of = chunk,
                     .immediate = immediate(chunk)};
    const bool from_here = places_.input_from_here(chunk);
    if (!c.embedding) {
      lives.inputs = from_here ? slots(chunk - 1, Stream::forward, chunk, Stream::input_backward)
                               : slots(chunk, Stream::receive_input, chunk, Stream::input_backward);
    }
    if (c.head) lives.outputs = 1;
    if (!c.head && places_.has(chunk, Stream::send_output)) {
      lives.outputs = slots(chunk, Stream::forward, chunk, Stream::send_output);
    }
    while (!chunks_[static_cast<std::size_t>(lives.gradients_of)].head &&
           !places_.has(lives.gradients_of, Stream::receive_gradient))
      ++lives.gradients_of;
    if (lives.gradients_of == chunk) lives.gradients = gradients_from(chunk);
    return lives;
  }

 private:
  // The chunks before this one on the same rank use its gradient on.
  int gradients_from(int chunk) const {
    int last = chunk;
    while (places_.input_from_here(last)) --last;
    return slots(chunk, chunks_[static_cast<std::size_t>(chunk)].head ? Stream::forward : Stream::receive_gradient, last,
                 places_.has(last, Stream::send_gradient) ? Stream::send_gradient : Stream::input_backward);
  }

  const Places& places_;
  const std::vector<Chunk>& chunks_;
};

}  // namespace

std::vector<ChunkLives> lives_of(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches) {
  const std::vector<std::string> problems = problems_of(actions, chunks, microbatches);
  ensure(problems.empty(), problems.empty() ? std::string() : problems.front());
  const Places places(actions, chunks, microbatches);
  std::vector<ChunkLives> lives;
  for (int c = 0; c < std::ssize(chunks); ++c) lives.push_back(Counting(places, chunks).of(c));
  return lives;
}

int open_microbatches(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches) {
  const Places places(actions, chunks, microbatches);
  std::vector<Life> lives;
  for (int m = 0; m < microbatches; ++m) {
    Life life{std::numeric_limits<int>::max(), 0};
    for (int c = 0; c < std::ssize(chunks); ++c) {
      const bool head = chunks[static_cast<std::size_t>(c)].head;
      life.first = std::min(life.first, places.at(c, head ? Stream::forward : Stream::input_backward, m));
      life.last = std::max(life.last, places.at(c, Stream::weight_backward, m));
    }
    lives.push_back(life);
  }
  return most_at_once(lives);
}

}  // namespace lockstep::layout
