#pragma once

// A save that goes on while the run does. Threads beside the ranks' own write files. Ranks come together on their own threads
// alone, which is what MPI wants. They do so once all have written, and once rank 0 has given the checkpoint its name.

#include <optional>
#include <vector>

#include "base/aside.h"
#include "checkpoint/background_writer.h"
#include "checkpoint/copies/piece.h"
#include "train/saving/save.h"

namespace lockstep::train {

class RunningSave final : private parallel::ChangeWatcher {
 public:
  /// Begins what save_run() does at once. State that lies still between visits is written from where it lies, and copied where
  /// an update comes first; other state is copied as an update visits it. The engine has memory for copies
  /// (EngineConfig::saves_beside) and is saved by one at a time. `host`: of a copy the ranks of this host, whose memory `run` is
  /// in; null: all ranks share the folder. Collective; the references outlive this.
  RunningSave(const io::Path& run, Engine& engine, const RunState& state, const Json& extra, Team& team,
              comm::Communicator* host = nullptr);
  RunningSave(const RunningSave&) = delete;
  RunningSave& operator=(const RunningSave&) = delete;
  /// Unless it has ended, nothing of it is left.
  ~RunningSave() override;

  std::int64_t step() const { return step_; }  ///< that is saved
  /// This rank has something to wait for. When no rank has, all call advance().
  bool busy() const;
  /// Goes on; says what was saved when that is durable. What failed on one rank is thrown on all. Collective, when no rank is
  /// busy.
  std::optional<checkpoint::SaveReport> advance();
  /// Waits until it is durable. Collective.
  checkpoint::SaveReport finish();
  /// What this rank wrote, when all have.
  std::vector<checkpoint::CopiedPart> parts() const;

 private:
  void lend_what_stays();
  void before_change(const parallel::StateRange& range) override;
  /// Nothing of the range is needed where it is any more.
  void hand_over(const parallel::StateRange& range);
  void wait_for_own() const;

  Engine& engine_;
  Team& team_;
  std::int64_t step_;
  io::Path run_;
  bool copy_;
  std::vector<std::string> suffixes_;
  checkpoint::Manifest manifest_;
  bool weights_stay_, slots_stay_;
  std::vector<std::int64_t> taken_;  ///< by unit: what does not stay was taken up to this element
  std::int64_t left_ = 0;            ///< elements of which something is still to be taken
  bool written_ = false;             ///< by all ranks
  double waited_ = 0, named_at_ = 0;
  checkpoint::Writer writer_;
  checkpoint::BackgroundWriter background_;
  std::optional<Aside> naming_;  ///< rank 0's; last: it ends before the rest goes
};

}  // namespace lockstep::train
