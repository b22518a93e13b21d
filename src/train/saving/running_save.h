#pragma once

// A save that goes on while the run does. Background threads of each rank write its files. Collectives run on the ranks' own
// threads alone, as MPI requires. The ranks meet once all have written, and once rank 0 has given the checkpoint its name.

#include <optional>
#include <vector>

#include "base/aside.h"
#include "checkpoint/background_writer.h"
#include "checkpoint/copies/piece.h"
#include "train/saving/save.h"

namespace lockstep::train {

class RunningSave final : private parallel::ChangeWatcher {
 public:
  /// Begins what save_run() does at once. State that stays in place between steps is written from where it lies, and copied where
  /// an update comes first. Other state is copied as an update visits it. The engine has memory for the copies
  /// (EngineConfig::saves_beside) and is saved by one object at a time. `host`: for a copy the ranks of this host, whose memory
  /// has `run`. Null: all ranks share the folder. Collective; the references outlive this.
  RunningSave(const io::Path& run, Engine& engine, const RunState& state, const Json& extra, Team& team,
              comm::Communicator* host = nullptr);
  RunningSave(const RunningSave&) = delete;
  RunningSave& operator=(const RunningSave&) = delete;
  /// Ends the save. One that is not durable leaves nothing behind.
  ~RunningSave() override;

  std::int64_t step() const { return step_; }  ///< the step that is saved
  /// Whether this rank has something to wait for. When no rank has, all call advance().
  bool busy() const;
  /// Goes on with the save. Returns its report once the checkpoint is durable. What failed on one rank is thrown on all.
  /// Collective, when no rank is busy.
  std::optional<checkpoint::SaveReport> advance();
  /// Waits until the checkpoint is durable. Collective.
  checkpoint::SaveReport finish();
  /// The parts that this rank wrote, once all ranks have written.
  std::vector<checkpoint::CopiedPart> parts() const;

 private:
  void lend_what_stays();
  void before_change(const parallel::StateRange& range) override;
  /// Takes what is still to be saved of the range. Afterwards the range may change.
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
  std::vector<std::int64_t> taken_;  ///< by unit: elements up to here were copied, of state that does not stay in place
  std::int64_t left_ = 0;            ///< elements with state that is still to be copied
  bool written_ = false;             ///< by all ranks
  double waited_ = 0, named_at_ = 0;
  checkpoint::Writer writer_;
  checkpoint::BackgroundWriter background_;
  std::optional<Aside> naming_;  ///< on rank 0; the last member, so that it ends before the others
};

}  // namespace lockstep::train
