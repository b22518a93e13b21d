#include "layout/pipeline_schedule.h"

#include <fmt/format.h>

#include <array>

#include "layout/lives.h"

namespace lockstep::layout {

using Kind = Action::Kind;

std::string to_string(const Action& action) {
  static constexpr std::array<const char*, 8> names{"forward",       "backward",    "input backward",   "weight backward",
                                                    "receive input", "send output", "receive gradient", "send gradient"};
  return fmt::format("{} of micro-batch {} in chunk {}", names[static_cast<std::size_t>(action.kind)], action.microbatch.value,
                     action.chunk);
}

namespace {

/// Whether each of the chunk's streams goes through all micro-batches once, in order.
void check_streams(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches,
                   std::vector<std::string>& problems) {
  const auto streams = static_cast<std::size_t>(Stream::count);
  std::vector<std::array<int, static_cast<std::size_t>(Stream::count)>> next(chunks.size());
  for (const Action& action : actions) {
    if (action.chunk < 0 || action.chunk >= std::ssize(chunks)) {
      problems.push_back(to_string(action) + ": this rank has no such chunk");
      continue;
    }
    for (std::size_t s = 0; s < streams; ++s) {
      int& due = next[static_cast<std::size_t>(action.chunk)][s];
      if (!belongs(action.kind, static_cast<Stream>(s))) continue;
      if (action.microbatch.value != due) {
        problems.push_back(
            fmt::format("{} comes where micro-batch {} is due: passes and messages of a chunk go in the order of micro-batches, "
                        "without which sums would have other bits",
                        to_string(action), due));
      }
      due = action.microbatch.value + 1;
    }
  }
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    for (std::size_t s = 0; s < streams; ++s) {
      const bool message = static_cast<Stream>(s) > Stream::weight_backward;
      if (next[c][s] == microbatches || (message && next[c][s] == 0)) continue;
      problems.push_back(fmt::format("chunk {}: {} stops at micro-batch {} of {}", c, name_of(static_cast<Stream>(s)), next[c][s],
                                     microbatches));
    }
  }
}

/// Whether what each pass and message needs is there.
void check_needs(const Places& places, const std::vector<Chunk>& chunks, std::vector<std::string>& problems) {
  const auto follows = [&](int chunk, Stream later, int other, Stream earlier, const char* why) {
    for (int m = 0; m < places.microbatches(); ++m) {
      const int at = places.at(chunk, later, m), after = places.at(other, earlier, m);
      if (at < 0 || (after >= 0 && after <= at)) continue;
      problems.push_back(fmt::format("chunk {}: {} of micro-batch {} {}", chunk, name_of(later), m, why));
    }
  };
  for (int c = 0; c < std::ssize(chunks); ++c) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(c)];
    follows(c, Stream::input_backward, c, Stream::forward, "comes before its forward pass");
    follows(c, Stream::weight_backward, c, Stream::input_backward, "comes before its input backward");
    follows(c, Stream::send_output, c, Stream::forward, "comes before its forward pass");
    follows(c, Stream::send_gradient, c, Stream::input_backward, "comes before its input backward");
    const bool starts = chunk.embedding, ends = chunk.head;
    if (starts && (places.has(c, Stream::receive_input) || places.has(c, Stream::send_gradient)))
      problems.push_back(fmt::format("chunk {} has the embedding, and no chunk before it to hear from or to tell", c));
    if (ends && (places.has(c, Stream::send_output) || places.has(c, Stream::receive_gradient)))
      problems.push_back(fmt::format("chunk {} has the head, and no chunk behind it to hear from or to tell", c));
    const bool from_here = places.input_from_here(c), to_here = c + 1 < std::ssize(chunks) && places.input_from_here(c + 1);
    if (!starts && from_here && c == 0) problems.push_back("chunk 0 gets its input from nowhere");
    if (!starts && from_here && c > 0 && chunks[static_cast<std::size_t>(c) - 1].blocks.end() != chunk.blocks.first)
      problems.push_back(fmt::format("chunk {} gets its input from chunk {}, which does not end where it begins", c, c - 1));
    if (!starts && from_here && c > 0) follows(c, Stream::forward, c - 1, Stream::forward, "comes before its input is there");
    if (!starts && !from_here) follows(c, Stream::forward, c, Stream::receive_input, "comes before its input is there");
    if (!ends && to_here) follows(c, Stream::input_backward, c + 1, Stream::input_backward, "comes before its gradient is there");
    if (!ends && !to_here) follows(c, Stream::input_backward, c, Stream::receive_gradient, "comes before its gradient is there");
    if (!ends && !to_here && !places.has(c, Stream::send_output))
      problems.push_back(fmt::format("the output of chunk {} goes nowhere", c));
    if (!starts && !from_here && !places.has(c, Stream::send_gradient))
      problems.push_back(fmt::format("the gradient of chunk {}'s input goes nowhere", c));
  }
}

}  // namespace

std::vector<std::string> problems_of(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches) {
  std::vector<std::string> problems;
  check_streams(actions, chunks, microbatches, problems);
  if (problems.empty()) check_needs(Places(actions, chunks, microbatches), chunks, problems);
  return problems;
}

}  // namespace lockstep::layout
