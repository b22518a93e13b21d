#pragma once

// Texts between ranks.

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace lockstep::comm {

/// Rank 0's text on every rank. Collective.
std::string lead_text(Communicator& world, std::string text);
/// Every rank's text, by rank. Collective.
std::vector<std::string> all_texts(Communicator& world, std::string text);

void send_text(Communicator& world, std::string text, int to);
std::string receive_text(Communicator& world, int from);

}  // namespace lockstep::comm
