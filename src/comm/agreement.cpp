#include "comm/agreement.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "comm/text.h"

namespace lockstep::comm {

void demand_agreement(Communicator& world, const std::string& what, const std::string& text) {
  const std::string first = lead_text(world, text);
  if (first == text) return;
  std::istringstream theirs(first), mine(text);
  std::string their_line, my_line;
  do {
    if (!std::getline(theirs, their_line)) their_line = "(nothing)";
    if (!std::getline(mine, my_line)) my_line = "(nothing)";
  } while (their_line == my_line && theirs && mine);
  throw UserError(fmt::format("the ranks were started with different {}: rank 0 with \"{}\", rank {} with \"{}\"", what,
                              their_line, world.rank(), my_line),
                  "start every rank with the same program and the same arguments");
}

}  // namespace lockstep::comm
