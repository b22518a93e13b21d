#pragma once

// Where a rank stands among the others: ezpz's facts about it, in its order.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/start/session.h"
#include "base/log.h"
#include "comm/communicator.h"

namespace lockstep::app {

struct Standing {
  int rank = 0;
  std::vector<std::string> hosts;   ///< the host of every rank
  std::string_view device = "cpu";  ///< its kind, the same on every rank
  std::string_view transport;
  std::string scheduler = "LOCAL";  ///< or PBS, SLURM
  std::string hostfile;             ///< empty: none
  std::string launch_command;       ///< the command that launch made; empty: it was started in another way
  std::string machine;              ///< by the host's name (launch/known_machines); empty: the host
  int devices = 0;                  ///< devices of a node; 0: as many as it has ranks
  int job_devices = 0;              ///< devices of all nodes of the job; 0: those of the nodes that ranks run on
  int servers = 0;                  ///< ranks that do not train

  int ranks() const { return static_cast<int>(hosts.size()); }
  std::vector<std::string> nodes() const;  ///< each host once, in order of rank
  int ranks_per_node() const;
  int devices_per_node() const { return devices > 0 ? devices : ranks_per_node(); }
  /// Where another rank stands.
  Standing of(int other) const {
    Standing standing = *this;
    standing.rank = other;
    return standing;
  }
  int local_rank() const { return rank % ranks_per_node(); }
  int node() const { return rank / ranks_per_node(); }
};

/// Collective: ranks tell each other their hosts. `variable(name)` is a value of the environment or null; what `lockstep launch`
/// told the ranks there counts.
Standing find_standing(comm::Communicator& world, std::string_view device, std::string_view transport,
                       const std::function<const char*(const char*)>& variable);

/// Where this rank stands among the session's ranks. Collective.
Standing standing_of(Session& session);

/// "[device='cpu'][rank=0/3][local_rank=0/3][node=0/0]".
std::string rank_line(const Standing& standing);
/// The 18 facts, one a line.
std::string dist_info(const Standing& standing);

/// A line of every rank, in order of rank, and this rank's facts; `servers` of the ranks do not train. Collective; returns where
/// this rank stands.
Standing log_ranks(Session& session, Log& log, int servers = 0);

}  // namespace lockstep::app
