#include "layout/pipeline/matching.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "layout/pipeline/simulation.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;

constexpr int kinds = static_cast<int>(Kind::send_gradient) + 1;

/// What goes from a stage to its neighbour.
struct Message {
  bool gradient;
  int stage;  ///< that makes it
  int microbatch;
  friend bool operator==(const Message&, const Message&) = default;
};

std::string to_string(const Message& message) {
  return fmt::format("the {} of stage {} for micro-batch {}", message.gradient ? "input's gradient" : "output", message.stage,
                     message.microbatch);
}

/// Messages between two ranks in the order in which one of them has them.
std::vector<Message> messages(const std::vector<Action>& actions, const StageMap& map, int rank, int other, bool sent) {
  std::vector<Message> all;
  for (const Action& action : actions) {
    const int stage = map.stages_of(rank)[static_cast<std::size_t>(action.chunk)];
    const bool behind = action.kind == Kind::send_output || action.kind == Kind::receive_gradient;
    const bool sends = action.kind == Kind::send_output || action.kind == Kind::send_gradient;
    if (action.kind <= Kind::weight_backward || sends != sent) continue;
    const int neighbour = behind ? stage + 1 : stage - 1;
    if (neighbour < 0 || neighbour >= map.stages() || map.rank_of(neighbour) != other) continue;
    const bool gradient = action.kind == Kind::send_gradient || action.kind == Kind::receive_gradient;
    all.push_back({gradient, sent ? stage : neighbour, action.microbatch.value});
  }
  return all;
}

void compare(const std::vector<Message>& sent, const std::vector<Message>& received, int from, int to,
             std::vector<std::string>& problems) {
  const auto [s, r] = std::ranges::mismatch(sent, received);
  if (s == sent.end() && r == received.end()) return;
  const auto number = s - sent.begin() + 1;
  const std::string what = s == sent.end() ? "nothing" : to_string(*s);
  const std::string wanted = r == received.end() ? "nothing" : to_string(*r);
  problems.push_back(fmt::format("message {} from rank {} to rank {}: rank {} sends {}, rank {} receives {}", number, from, to,
                                 from, what, to, wanted));
}

}  // namespace

std::string write_actions(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions)
    text += fmt::format("{} {} {}\n", static_cast<int>(action.kind), action.microbatch.value, action.chunk);
  return text;
}

std::optional<std::vector<Action>> read_actions(std::string_view text) {
  std::vector<Action> actions;
  while (!text.empty()) {
    std::array<int, 3> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
      const char follows = i + 1 < numbers.size() ? ' ' : '\n';
      if (error != std::errc{} || end == text.data() + text.size() || *end != follows || numbers[i] < 0) return std::nullopt;
      text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
    }
    if (numbers[0] >= kinds) return std::nullopt;
    actions.push_back({static_cast<Kind>(numbers[0]), Microbatch{numbers[1]}, numbers[2]});
  }
  return actions;
}

std::vector<std::string> mismatches_of(const std::vector<std::vector<Action>>& lists, const StageMap& map) {
  std::vector<std::string> problems;
  if (std::ssize(lists) != map.ranks())
    return {fmt::format("there are {} lists for {} ranks of the pipeline", lists.size(), map.ranks())};
  for (int rank = 0; rank < map.ranks(); ++rank) {
    const auto chunks = std::ssize(map.stages_of(rank));
    for (const Action& action : lists[static_cast<std::size_t>(rank)]) {
      if (action.chunk >= chunks) problems.push_back(fmt::format("rank {}: {}: it has no such chunk", rank, to_string(action)));
    }
  }
  if (!problems.empty()) return problems;
  for (int from = 0; from < map.ranks(); ++from) {
    for (int to = 0; to < map.ranks(); ++to) {
      if (from == to) continue;
      compare(messages(lists[static_cast<std::size_t>(from)], map, from, to, true),
              messages(lists[static_cast<std::size_t>(to)], map, to, from, false), from, to, problems);
    }
  }
  if (!problems.empty()) return problems;
  return simulate(lists, map).deadlock;
}

}  // namespace lockstep::layout
