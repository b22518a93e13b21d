#pragma once

// Which faults are injected, and what comes of one.

#include <string>
#include <vector>

#include "faults/inject/disk.h"
#include "faults/inject/scenario.h"
#include "faults/trace/tracer.h"

namespace lockstep::faults {

/// For every call: the kill before it, each error that it may have, and a write of less than all.
std::vector<Fault> all_faults(const std::vector<Call>& calls);

/// `count` of `all`, evenly spaced; all when there are no more.
template <class T>
std::vector<T> sampled(const std::vector<T>& all, std::size_t count) {
  if (all.size() <= count) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

/// A scenario with its states before and after, and the calls that lead from one to the other undisturbed.
struct Rehearsal {
  const Scenario* scenario;
  Tree before, after;
  std::vector<Call> calls;
  Disk disk;
};
Rehearsal rehearse(const Scenario& scenario, Site& site);

/// What is wrong after a fault or a power cut; empty: nothing. Thread-safe for sites of different folders.
std::vector<std::string> try_fault(const Rehearsal& rehearsal, const Fault& fault, Site& site);
std::vector<std::string> try_cut(const Rehearsal& rehearsal, const Cut& cut, Site& site);

}  // namespace lockstep::faults
