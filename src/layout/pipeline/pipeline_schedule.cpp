#include "layout/pipeline/pipeline_schedule.h"

#include <fmt/format.h>

#include <array>

#include "layout/pipeline/lives.h"

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

/// Whether what each pass and message of a chunk needs is there.
class Needs {
 public:
  Needs(const Places& places, const std::vector<Chunk>& chunks, std::vector<std::string>& problems)
      : places_(places), chunks_(chunks), problems_(problems) {}

  void check(int c) {
    follows(c, Stream::input_backward, c, Stream::forward, "comes before its forward pass");
    follows(c, Stream::weight_backward, c, Stream::input_backward, "comes before its input backward");
    follows(c, Stream::send_output, c, Stream::forward, "comes before its forward pass");
    follows(c, Stream::send_gradient, c, Stream::input_backward, "comes before its input backward");
    check_input(c);
    check_output(c);
  }

 private:
  const Chunk& chunk(int c) const { return chunks_[static_cast<std::size_t>(c)]; }

  void follows(int c, Stream later, int other, Stream earlier, const char* why) {
    for (int m = 0; m < places_.microbatches(); ++m) {
      const int at = places_.at(c, later, m), after = places_.at(other, earlier, m);
      if (at < 0 || (after >= 0 && after <= at)) continue;
      problems_.push_back(fmt::format("chunk {}: {} of micro-batch {} {}", c, name_of(later), m, why));
    }
  }

  void check_input(int c) {
    if (chunk(c).embedding) {
      if (places_.has(c, Stream::receive_input) || places_.has(c, Stream::send_gradient))
        problems_.push_back(fmt::format("chunk {} has the embedding, and no chunk before it to hear from or to tell", c));
      return;
    }
    if (!places_.input_from_here(c)) {
      follows(c, Stream::forward, c, Stream::receive_input, "comes before its input is there");
      if (!places_.has(c, Stream::send_gradient))
        problems_.push_back(fmt::format("the gradient of chunk {}'s input goes nowhere", c));
      return;
    }
    if (c == 0) {
      problems_.push_back("chunk 0 gets its input from nowhere");
      return;
    }
    if (chunk(c - 1).blocks.end() != chunk(c).blocks.first)
      problems_.push_back(fmt::format("chunk {} gets its input from chunk {}, which does not end where it begins", c, c - 1));
    follows(c, Stream::forward, c - 1, Stream::forward, "comes before its input is there");
  }

  void check_output(int c) {
    if (chunk(c).head) {
      if (places_.has(c, Stream::send_output) || places_.has(c, Stream::receive_gradient))
        problems_.push_back(fmt::format("chunk {} has the head, and no chunk behind it to hear from or to tell", c));
      return;
    }
    if (c + 1 < std::ssize(chunks_) && places_.input_from_here(c + 1)) {
      follows(c, Stream::input_backward, c + 1, Stream::input_backward, "comes before its gradient is there");
      return;
    }
    follows(c, Stream::input_backward, c, Stream::receive_gradient, "comes before its gradient is there");
    if (!places_.has(c, Stream::send_output)) problems_.push_back(fmt::format("the output of chunk {} goes nowhere", c));
  }

  const Places& places_;
  const std::vector<Chunk>& chunks_;
  std::vector<std::string>& problems_;
};

}  // namespace

std::vector<std::string> problems_of(const std::vector<Action>& actions, const std::vector<Chunk>& chunks, int microbatches) {
  std::vector<std::string> problems;
  check_streams(actions, chunks, microbatches, problems);
  if (!problems.empty()) return problems;
  const Places places(actions, chunks, microbatches);
  Needs needs(places, chunks, problems);
  for (int c = 0; c < std::ssize(chunks); ++c) needs.check(c);
  return problems;
}

}  // namespace lockstep::layout
