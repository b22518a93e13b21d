#pragma once

// checkpoint.copies: where a run's copies lie, and what a start makes of those that ranks before it left.

#include <optional>
#include <string>

#include "app/start/session.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/find.h"
#include "train/saving/copies.h"

namespace lockstep::app {

/// The place on each host for copies of the run in that folder. Collective.
train::CopyPlace copy_place(const io::Path& run, comm::Communicator& ranks);
/// The place in a line, for the log.
std::string describe(const train::CopyPlace& place);

/// Is called before a run goes on from `last`. The newest copy that follows `last` becomes a checkpoint of the run. What came of
/// that is logged. Then the copies are deleted. Returns whether there is a newer checkpoint now. Collective.
bool bring_copies(const io::Path& run, const checkpoint::Choice& last, Session& session, Log& log);
/// Deletes the run's copies before it starts anew. Collective.
void clear_copies(const io::Path& run, comm::Communicator& world);

/// What is lacking where this host's ranks, of which this one needs `bytes`, have no room for their copies. The same on all
/// ranks. Collective.
std::optional<Problem> lacks_room_for_copies(std::int64_t bytes, comm::Communicator& world);

}  // namespace lockstep::app
