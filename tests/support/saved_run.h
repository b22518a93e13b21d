#pragma once

// Runs of zero_run.h that are saved after their first steps, and gone on with.

#include <filesystem>

#include "io/file.h"
#include "support/zero_run.h"
#include "train/state.h"

namespace lockstep::support {

constexpr int saved_steps = 2;

/// What a run has after its first steps, and the checkpoint of it.
struct Saved {
  io::Path folder;
  ZeroResult state;
};
inline Saved save(const ZeroRun& run, const io::Path& folder) {
  std::filesystem::create_directories(folder);  // a save makes no run folder
  Saved saved;
  on_zero_ranks(run, [&](ZeroRank& rank) {
    rank.engine().initialise();
    ZeroResult trained;
    train(rank, 0, saved_steps, trained);
    rank.collect(saved.state, false);
    const checkpoint::SaveReport report =
        train::save_run(folder, rank.engine(), {.step = saved_steps}, Json::Object{}, rank.team());
    if (rank.rank() == 0) saved.folder = report.folder;
  });
  return saved;
}

/// A further step of a run whose state `set` brings into an engine: what came in, and where the step leads.
struct Gone {
  ZeroResult loaded, after;
};
inline Gone go_on(const ZeroRun& run, const std::function<void(ZeroRank&)>& set) {
  Gone gone;
  on_zero_ranks(run, [&](ZeroRank& rank) {
    set(rank);
    rank.engine().check_state();
    rank.collect(gone.loaded, false);
    train(rank, saved_steps, saved_steps + 1, gone.after);
    rank.collect(gone.after);
  });
  return gone;
}
inline Gone resume(const ZeroRun& run, const io::Path& checkpoint) {
  return go_on(run, [&](ZeroRank& rank) {
    comm::Communicator& ranks = rank.engine().groups().all();
    train::load_run(*checkpoint::open_together(ranks, checkpoint), rank.engine(), ranks, rank.team());
  });
}

}  // namespace lockstep::support
