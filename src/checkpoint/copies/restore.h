#pragma once

// The start of a run finds what the ranks before it left in the memory of hosts.

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/copies/piece.h"
#include "checkpoint/find.h"

namespace lockstep::checkpoint {

struct FoundCopies {
  std::optional<SaveReport> restored;  ///< the newest whole copy, which is a checkpoint of the run now
  std::vector<std::string> ignored;    ///< why other copies were not taken: to warn about
};

/// Looks in each rank's `place` for copies that follow `last`, the newest checkpoint of `run`. The newest copy counts whose
/// pieces are all there and whole, on whatever hosts. It becomes a checkpoint in the run's folder: the same files that a save
/// would have written. The same on all ranks. Collective.
FoundCopies restore_copies(comm::Communicator& world, const io::Path& place, const io::Path& run, const Choice& last, Team& team);

/// Makes the folder where a host's copies go, which its user alone may read. Throws UserError where it is another user's.
void make_place(const io::Path& place);
/// Deletes the folder on this host with all that is in it, unless it is another user's.
void remove_copies(const io::Path& place);

}  // namespace lockstep::checkpoint
