#pragma once

// What one rank of a training needs beside its settings: an engine, batches of a text, and a log that says nothing.

#include "data/loader.h"
#include "io/file.h"
#include "support/tiny_engine.h"
#include "train/trainer.h"

namespace lockstep::support {

class TinyTrainer {
 public:
  /// `text`: ids of 2 bytes, below 258. The engine is committed, and has its start values. Collective over `world`.
  TinyTrainer(comm::Communicator& world, const io::Path& text)
      : file_(text, {.token_bytes = 2, .vocabulary = 258}),
        config_(config()),
        engine_(config_, *attached(world).runtime, *machine_.ops, world),
        loader_(file_, data::evaluation_sampler(file_, config_.positions, 1, "training"),
                {.samples = config_.samples, .positions = config_.positions, .rank = world.rank(), .ranks = world.size()}),
        windows_(file_, data::evaluation_sampler(file_, config_.positions, 1, "val"), config_.samples, config_.positions,
                 config_.samples),
        sampler_(engine_.share()) {
    loader_.declare(batches_);
    windows_.declare(batches_);
    Ledger ledger;
    batches_.commit(machine_.runtime->memory(Space::pinned), ledger);
    engine_.commit();
    engine_.initialise();
  }

  data::BatchSource& loader() { return loader_; }
  /// `batches`: the loader, or what stands before it.
  train::TrainerParts parts(data::BatchSource& batches) {
    return {engine_, batches, windows_, windows_, sampler_, nullptr, machine_.runtime->team(), log_};
  }

 private:
  static train::EngineConfig config() {
    train::EngineConfig config = tiny_config();
    config.model.vocabulary = 258;
    return config;
  }
  Machine& attached(comm::Communicator& world) {
    world.attach(*machine_.stream, machine_.runtime->team());
    return machine_;
  }

  Machine machine_{1};
  data::TokenFile file_;
  train::EngineConfig config_;
  RankEngine engine_;
  Arena batches_{"batches", MemoryKind::data};
  data::Loader loader_;
  data::WindowReader windows_;
  train::TextSampler sampler_;
  Log log_{stderr, Level::critical};
};

}  // namespace lockstep::support
