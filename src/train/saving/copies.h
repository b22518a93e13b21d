#pragma once

// Checkpoints in the memory of hosts, where they outlive the ranks (checkpoint/copies/piece). Every rank writes its piece into
// its own host's memory while steps go on. With several hosts each piece goes to the next host, too. So no host that fails takes
// the only one along.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/copies/exchange.h"
#include "train/saving/running_save.h"

namespace lockstep::train {

struct CopyPlace {
  io::Path folder;                 ///< of this run's copies, on each host
  std::vector<std::string> hosts;  ///< by rank
};

class Copies {
 public:
  /// The engine has memory for saves beside steps. Throws UserError where hosts have different numbers of ranks. Collective; the
  /// references outlive this.
  Copies(CopyPlace place, Engine& engine, Team& team);
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Whether a copy is under way.
  bool active() const { return save_ || exchange_; }
  /// Whether this rank has something to wait for. When no rank has, all call advance().
  bool busy() const { return (save_ && save_->busy()) || (exchange_ && exchange_->busy()); }
  /// Begins a copy of the run's state. `last` is the checkpoint before it. Collective, when no copy is under way.
  void begin(const RunState& state, const Json& extra, const io::Path& last);
  /// Goes on with the copy. Returns its report once it is complete on all hosts and the older copy is removed. Collective.
  std::optional<checkpoint::SaveReport> advance();
  /// Abandons the copy that is under way, because another save begins. Collective.
  void give_up();
  /// Removes all copies of this run, when there is a newer checkpoint or none is needed. Collective.
  void remove();

  int hosts() const { return neighbours_.hosts; }

 private:
  void end_writing(checkpoint::SaveReport report);
  void remove_older() const;

  CopyPlace place_;
  Engine& engine_;
  Team& team_;
  checkpoint::Neighbours neighbours_;
  std::unique_ptr<comm::Communicator> ranks_, host_;
  std::int64_t step_ = 0;  ///< the step that is copied
  checkpoint::Piece piece_;
  checkpoint::SaveReport report_;
  double started_ = 0, advanced_ = 0, step_seconds_ = 0;  // by now_seconds()
  std::unique_ptr<RunningSave> save_;
  std::unique_ptr<checkpoint::Exchange> exchange_;
};

}  // namespace lockstep::train
