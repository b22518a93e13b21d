#pragma once

// Runs of layout_run.h that are saved after their first steps, and gone on with.

#include <filesystem>

#include "checkpoint/find.h"
#include "io/file.h"
#include "support/layout_run.h"
#include "train/inference.h"
#include "train/state.h"

namespace lockstep::support {

constexpr int saved_steps = 2;

/// What a run has after its first steps, and the checkpoint of it.
struct Saved {
  io::Path folder;
  LayoutResult state;
};
/// Saves what a rank has now; sets `folder` on the lead.
inline void save_rank(LayoutRank& rank, const io::Path& folder, std::int64_t step, io::Path& saved) {
  const checkpoint::SaveReport report = train::save_run(folder, rank.engine(), {.step = step}, Json::Object{}, rank.team());
  if (rank.lead()) saved = report.folder;
}
inline Saved save(const LayoutRun& run, const io::Path& folder, int steps = saved_steps) {
  std::filesystem::create_directories(folder);  // a save makes no run folder
  Saved saved;
  on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    LayoutResult trained;
    take_steps(rank, 0, steps, trained);
    rank.collect(saved.state, false);
    save_rank(rank, folder, steps, saved.folder);
  });
  return saved;
}

/// A run that goes on from a state that `set` brings into an engine. It keeps the state as it came in, and the results of further
/// steps.
struct Gone {
  LayoutResult loaded, after;
};
inline Gone go_on(const LayoutRun& run, const std::function<void(LayoutRank&)>& set, int steps = saved_steps, int further = 1) {
  Gone gone;
  on_layout(run, [&](LayoutRank& rank) {
    set(rank);
    rank.engine().check_state();
    rank.collect(gone.loaded, false);
    take_steps(rank, steps, steps + further, gone.after);
    rank.collect(gone.after);
  });
  return gone;
}
inline void load(LayoutRank& rank, const io::Path& checkpoint) {
  comm::Communicator& ranks = rank.groups().all();
  train::load_run(*checkpoint::open_together(ranks, checkpoint), rank.engine(), ranks, rank.team());
}
inline Gone resume(const LayoutRun& run, const io::Path& checkpoint, int steps = saved_steps, int further = 1) {
  return go_on(run, [&](LayoutRank& rank) { load(rank, checkpoint); }, steps, further);
}

/// A model for reading on a rank that keeps the parts of its weights that a layout says, and its logits of seven tokens.
struct Reading {
  train::Inference& inference;
  Runtime& runtime;
  const Tensor& logits;
  bool lead;
};
inline void on_readers(const LayoutRun& run, const io::Path& checkpoint, const std::function<void(const Reading&)>& use) {
  const layout::ParallelPlan plan = run.plan();
  comm::run_ranks(plan.ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
    Machine machine(1);
    world.attach(*machine.stream, machine.runtime->team());
    const parallel::Groups groups(world, layout::Mesh(plan));
    train::Inference inference(run.model, DType::f32, *machine.runtime, *machine.ops, groups);
    inference.load(*checkpoint::open_together(world, checkpoint), machine.runtime->team());
    inference.prepack();
    TinyReader reader(inference.context(), machine);
    std::vector<std::int32_t> tokens{5, 1, 64, 0, 33, 7, 12};
    const Tensor text = view(std::span(tokens), Shape{7});
    for (int first = 0; first < 7; ++first) reader.read(text, first, 1);
    use({inference, *machine.runtime, reader.logits, groups.lead()});
  });
}

inline void expect_same_files(const io::Path& one, const io::Path& other) {
  for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file})
    EXPECT_TRUE(io::read_file(one / name) == io::read_file(other / name)) << name;
}

}  // namespace lockstep::support
