#include "layout/pipeline/passes.h"

#include <deque>
#include <map>
#include <optional>

#include "base/error.h"
#include "layout/pipeline/simulation.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;

/// What a pass makes for a stage on another rank.
struct Message {
  Kind kind;  ///< receive_input or receive_gradient
  int stage;  ///< that receives it
  int microbatch;
};

bool goes_back(Kind kind) { return kind == Kind::backward || kind == Kind::input_backward; }

struct Sent {
  Message message;
  double time;
};

class Writer {
 public:
  Writer(const std::vector<std::vector<StagePass>>& passes, const StageMap& map) : map_(map) {
    timeline_ = simulate(bare_actions(passes, map), map);
    ensure(timeline_.deadlock.empty(), timeline_.deadlock.empty() ? std::string() : timeline_.deadlock.front());
    for (std::size_t rank = 0; rank < passes.size(); ++rank) {
      for (std::size_t i = 0; i < passes[rank].size(); ++i) {
        const auto made = made_by(passes[rank][i]);
        if (made) ways_[{map.rank_of(made->stage), static_cast<int>(rank)}].push_back({*made, timeline_.ranks[rank][i].end});
      }
    }
  }

  std::vector<Action> write(int rank, const std::vector<StagePass>& passes) {
    std::vector<Action> actions;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const StagePass& pass = passes[i];
      receive(rank, timeline_.ranks[static_cast<std::size_t>(rank)][i].start, actions);
      actions.push_back(action(pass.kind, pass.stage, pass.microbatch));
      const Kind send = pass.kind == Kind::forward ? Kind::send_output : Kind::send_gradient;
      if (made_by(pass)) actions.push_back(action(send, pass.stage, pass.microbatch));
    }
    return actions;
  }

 private:
  Action action(Kind kind, int stage, int microbatch) const { return {kind, Microbatch{microbatch}, map_.chunk_of(stage)}; }
  bool elsewhere(int stage, int other) const {
    return other >= 0 && other < map_.stages() && map_.rank_of(stage) != map_.rank_of(other);
  }
  std::optional<Message> made_by(const StagePass& pass) const {
    if (pass.kind == Kind::forward && elsewhere(pass.stage, pass.stage + 1)) {
      return Message{Kind::receive_input, pass.stage + 1, pass.microbatch};
    }
    if (goes_back(pass.kind) && elsewhere(pass.stage, pass.stage - 1)) {
      return Message{Kind::receive_gradient, pass.stage - 1, pass.microbatch};
    }
    return std::nullopt;
  }
  /// What others have sent by then, from each in order.
  void receive(int rank, double time, std::vector<Action>& actions) {
    for (auto way = ways_.lower_bound({rank, 0}); way != ways_.end() && way->first.first == rank; ++way) {
      for (std::deque<Sent>& sent = way->second; !sent.empty() && sent.front().time <= time; sent.pop_front()) {
        const Message& message = sent.front().message;
        actions.push_back(action(message.kind, message.stage, message.microbatch));
      }
    }
  }

  const StageMap& map_;
  Timeline timeline_;
  std::map<std::pair<int, int>, std::deque<Sent>> ways_;  ///< to a rank from another: not received yet
};

}  // namespace

std::vector<std::vector<Action>> bare_actions(const std::vector<std::vector<StagePass>>& passes, const StageMap& map) {
  std::vector<std::vector<Action>> actions(passes.size());
  for (std::size_t rank = 0; rank < passes.size(); ++rank) {
    for (const StagePass& pass : passes[rank]) {
      actions[rank].push_back({pass.kind, Microbatch{pass.microbatch}, map.chunk_of(pass.stage)});
    }
  }
  return actions;
}

std::vector<std::vector<Action>> with_messages(const std::vector<std::vector<StagePass>>& passes, const StageMap& map) {
  ensure(std::ssize(passes) == map.ranks(), "there is a list of passes for every rank of the pipeline");
  Writer writer(passes, map);
  std::vector<std::vector<Action>> actions;
  for (int rank = 0; rank < map.ranks(); ++rank) actions.push_back(writer.write(rank, passes[static_cast<std::size_t>(rank)]));
  return actions;
}

}  // namespace lockstep::layout
