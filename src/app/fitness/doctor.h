#pragma once

// The examination of `lockstep doctor`: every collective, bandwidths, a training run of known outcome, and a verdict.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/start/session.h"
#include "base/log.h"
#include "base/text/answer.h"
#include "comm/operation.h"
#include "lab/machine_probe.h"

namespace lockstep::app {

/// Runs `op` on a few values a rank, tells who held what before and after, and returns what is wrong on this rank.
std::optional<std::string> show_collective(comm::Collective op, Session& session, Log& log);
/// Trains as `lockstep test_dist` does and returns this rank's last loss.
double test_loss(Session& session, Log& log);

/// What the verdict rests on; each is collective.
struct Checks {
  std::function<std::optional<std::string>(comm::Collective, Session&, Log&)> collective = show_collective;
  std::function<double(Session&, Log&)> loss = test_loss;
};

/// Causes against this machine, the same on every rank; none: the machine is fit. The log tells of each check as it goes.
/// `answer` gets what was measured. Collective.
std::vector<std::string> examine(Session& session, Log& log, Answer& answer, const Checks& checks = {});
/// The machine that the session's ranks run on, measured and named after rank 0's host; its disk is that of `path`'s folder.
/// Throws UserError where hosts have different numbers of ranks. Collective.
planner::Machine measured_machine(const std::string& path, lab::ProbeOptions options, Session& session);
/// Writes the machine as a file that `plan search` reads, whole or not at all. Returns what one device is, in lines. Throws where
/// the file cannot be written.
std::string write_machine_file(const std::string& path, const planner::Machine& machine);
/// "FIT: ..." or "UNFIT: ..." with the causes.
std::string verdict(const std::vector<std::string>& causes);

}  // namespace lockstep::app
