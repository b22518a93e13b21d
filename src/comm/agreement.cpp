#include "comm/agreement.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"

namespace lockstep::comm {
namespace {

Tensor view_of(std::string& text) {
  return view(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), Shape{std::ssize(text)});
}

}  // namespace

void demand_agreement(Communicator& world, const std::string& what, std::string text) {
  if (world.size() == 1) return;
  std::int64_t length = std::ssize(text);
  world.broadcast(view(std::span(&length, 1), Shape{1}), 0).wait();
  std::string first = text;
  first.resize(static_cast<std::size_t>(length));
  world.broadcast(view_of(first), 0).wait();
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
