#pragma once

// The lines that a training run starts with: few, or WordPlay's (docs/configuration.md), in its order.

#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "app/start/session.h"
#include "arch/config.h"
#include "base/log.h"
#include "data/corpus.h"
#include "train/engine_config.h"

namespace lockstep::app {

struct StartupFacts {
  const RunConfig& config;
  const train::EngineConfig& settings;
  const data::Corpus& corpus;
  std::string run_folder;
  std::string run_name;
  std::int64_t steps = 0;   ///< 0: a server's run, which takes none
  double samples_seen = 0;  ///< when all steps are done
};

/// How log.style wants its lines.
LogForm log_form(const RunConfig& config);

/// The few lines of log.style=plain.
void log_plainly(Log& log, const StartupFacts& facts, const Session& session);

/// Collective. Up to the model's table; "Startup time" and the legend follow right before the first step.
void log_startup(Log& log, const StartupFacts& facts, Session& session);

/// WordPlay's parameter lines: number of parameters, model size, decayed and not decayed tensors.
void log_parameters(Log& log, const RunConfig& config, const arch::ModelConfig& model);

/// How the ranks share the model and its samples, where there are several.
void log_layout(Log& log, const layout::ParallelPlan& plan);

/// The host of each of `ranks`; empty where a host has more threads than cores, so that its ranks are late by turns. Collective.
std::vector<std::string> quiet_hosts(const Session& session, comm::Communicator& ranks);

/// The model as PyTorch would print it.
std::string model_tree(const arch::ModelConfig& model);

}  // namespace lockstep::app
