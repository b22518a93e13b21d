#include "comm/agreement.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "comm/text.h"

namespace lockstep::comm {
namespace {

constexpr int user_error = 1, system_error = 2, broken_rule = 3;

/// What another rank needs to throw the same.
std::string packed(int kind, const std::vector<Problem>& problems) {
  Json::Array texts;
  for (const Problem& problem : problems) texts.emplace_back(Json::Array{problem.message, problem.remedy});
  return Json(Json::Object{{"kind", kind}, {"problems", std::move(texts)}}).dump();
}

/// Empty when `body` throws nothing.
std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const UserError& error) {
    return packed(user_error, error.problems());
  } catch (const BrokenRule& error) {
    return packed(broken_rule, {{error.what(), ""}});
  } catch (const std::exception& error) {
    return packed(system_error, {{error.what(), ""}});
  }
  return "";
}

[[noreturn]] void throw_packed(const std::string& failure, std::size_t rank) {
  const Json json = Json::parse(failure);
  std::vector<Problem> problems;
  for (const Json& problem : json.at("problems").array())
    problems.push_back({problem.array().at(0).string(), problem.array().at(1).string()});
  if (rank != 0) problems.front().message = fmt::format("rank {}: {}", rank, problems.front().message);
  if (json.at("kind").integer() == user_error) throw UserError(std::move(problems));
  if (json.at("kind").integer() == broken_rule) throw BrokenRule(problems.front().message);
  throw SystemError(problems.front().message);
}

}  // namespace

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

void together(Communicator& ranks, const std::function<void()>& body) {
  if (ranks.size() == 1) return body();
  const std::vector<std::string> failures = all_texts(ranks, failure_of(body));
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) throw_packed(failures[rank], rank);
  }
}

void Attempts::run(const std::function<void()>& body) {
  if (failure_) return;
  try {
    body();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Attempts::rethrow() const {
  if (failure_) std::rethrow_exception(failure_);
}

void Attempts::meet(Communicator& ranks) const {
  together(ranks, [&] { rethrow(); });
}

}  // namespace lockstep::comm
