#include "faults/inject/plan.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/error.h"

namespace lockstep::faults {
namespace {

// As documented: 0, 1 for what the machine refused, 2 for what the user can mend.
constexpr int most_documented = 2;

/// Less written than asked for, or a signal: the program makes the call again. What prints leaves that to the C library, which
/// does the first, and to handlers that let calls go on (SA_RESTART).
bool must_not_be_noticed(const Fault& fault, const Scenario& scenario, const Call& call) {
  if (fault.act == Act::shorten) return true;
  const bool printed = !scenario.output.empty() && call.path.filename() == scenario.output;
  return fault.act == Act::fail && fault.error == EINTR && !printed;
}

std::vector<std::string> check(const Rehearsal& rehearsal, bool succeeded, Site& site, std::vector<std::string> violations) {
  Aftermath aftermath{site, succeeded, rehearsal.before, rehearsal.after, std::move(violations)};
  rehearsal.scenario->check(aftermath);
  return std::move(aftermath.violations);
}

}  // namespace

std::vector<Fault> all_faults(const std::vector<Call>& calls) {
  std::vector<Fault> faults;
  for (std::size_t at = 1; at <= calls.size(); ++at) {
    faults.push_back({at, Act::kill, 0});
    for (const int error : calls[at - 1].kind->errors) faults.push_back({at, Act::fail, error});
    if (can_have({at, Act::shorten, 0}, calls[at - 1])) faults.push_back({at, Act::shorten, 0});
  }
  return faults;
}

Rehearsal rehearse(const Scenario& scenario, Site& site) {
  site.reset({});
  scenario.set_up(site);
  Rehearsal rehearsal{.scenario = &scenario, .before = read_tree(site.folder()), .after = {}, .calls = {}, .disk = {{}, {}}};
  const Outcome outcome =
      site.trace(scenario.command, scenario.output, {.folder = {}, .fault = {}, .refused = scenario.refused, .records = true});
  if (outcome.code != 0)
    throw SystemError(fmt::format("{}: without a fault it ends with {}: {}", scenario.name, outcome.code, site.said()));
  rehearsal.after = read_tree(site.folder());
  rehearsal.calls = outcome.calls;
  rehearsal.disk = Disk(rehearsal.before, site.folder());
  for (const Call& call : rehearsal.calls) rehearsal.disk.add(call);
  return rehearsal;
}

std::vector<std::string> try_fault(const Rehearsal& rehearsal, const Fault& fault, Site& site) {
  const Scenario& scenario = *rehearsal.scenario;
  site.reset(rehearsal.before);
  const Outcome outcome =
      site.trace(scenario.command, scenario.output, {.folder = {}, .fault = fault, .refused = scenario.refused});
  std::vector<std::string> violations;
  const auto demand = [&](bool holds, const std::string& rule) {
    if (!holds) violations.push_back(fmt::format("{}; it said: {}", rule, site.said()));
  };
  demand(!outcome.too_long, "it does not end");
  if (fault.act != Act::kill) {
    demand(outcome.code >= 0 && outcome.code <= most_documented, fmt::format("it ends with {}", outcome.code));
    const bool tells = site.said().find("lockstep: ") != std::string::npos ||
                       (scenario.tells && scenario.tells(read_tree(site.folder())[scenario.output]));
    demand(outcome.code == 0 || tells, "it ends without an error message");
    const bool hidden = outcome.struck > 0 && must_not_be_noticed(fault, scenario, outcome.calls[outcome.struck - 1]);
    demand(outcome.code == 0 || !hidden, "it ends with an error, though the call was to be made again");
  }
  return check(rehearsal, outcome.code == 0, site, std::move(violations));
}

std::vector<std::string> try_cut(const Rehearsal& rehearsal, const Cut& cut, Site& site) {
  site.reset(rehearsal.disk.state(cut));
  return check(rehearsal, false, site, {});
}

}  // namespace lockstep::faults
