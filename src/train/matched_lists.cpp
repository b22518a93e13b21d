#include "train/matched_lists.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "layout/pipeline/matching.h"

namespace lockstep::train {
namespace {

std::string text_of(const std::vector<layout::Action>& actions) {
  std::string text;
  for (const layout::Action& action : actions) text += to_string(action) + "\n";
  return text;
}

std::string text_of(const RankList& list) {
  std::string text;
  for (const layout::Access& access : list.leases) {
    const layout::Part& part = access.part;
    const std::string columns = part.strided() ? fmt::format(", columns {} to {}", part.columns.first, part.columns.end()) : "";
    text += fmt::format("lease of elements {} to {}{} of unit {}, {}\n", part.elements.first, part.elements.end(), columns,
                        part.unit.value, access.pass == layout::Pass::forward ? "forward" : "backward");
  }
  for (const parallel::GradientBucket& bucket : list.reductions) {
    std::vector<int> units;
    for (const UnitIndex unit : bucket.units) units.push_back(unit.value);
    text += fmt::format("reduction of units {}\n", fmt::join(units, ", "));
  }
  return text;
}

/// What does not match between the pipeline's ranks, of which all find the same. Collective over them.
std::vector<std::string> mismatches(const RankPart& part, comm::Communicator& pipeline) {
  std::vector<std::vector<layout::Action>> lists;
  for (const std::string& text : comm::all_texts(pipeline, layout::write_actions(part.actions)))
    lists.push_back(layout::read_actions(text).value_or(std::vector<layout::Action>{}));
  return layout::mismatches_of(lists, part.stages);
}

}  // namespace

void demand_matching_lists(const RankList& list, const parallel::Groups& groups) {
  const std::vector<std::string> problems = mismatches(list.part, groups.pipeline());
  comm::together(groups.all(), [&] {
    if (!problems.empty()) throw SystemError("the lists of the pipeline's ranks do not match: " + problems.front());
  });
  const std::string actions = text_of(list.part.actions);
  comm::demand_agreement(groups.tensor(), "lists of actions", actions);
  comm::demand_agreement(groups.replicas(), "lists of actions", actions + text_of(list));
}

}  // namespace lockstep::train
