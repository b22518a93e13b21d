#include "app/drill/drill_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "base/rng.h"

namespace lockstep::app {
namespace {

using train::DrillFault;
using train::DrillKind;

constexpr double most_slow = 100;
constexpr std::int64_t in_the_middle = 0;

/// Adds the fault that `word` is, or what is wrong with it.
void read_fault(DrillKind kind, const std::string& word, std::vector<DrillFault>& faults, std::vector<Problem>& problems) {
  DrillFault fault{.kind = kind, .step = in_the_middle};
  const std::string option = fmt::format("--{} {}", fault.name(), word);
  std::string what = word;
  if (const std::size_t at = word.rfind('@'); at != std::string::npos) {
    what = word.substr(0, at);
    fault.step = number_from<std::int64_t>(word.substr(at + 1)).value_or(-1);
    if (fault.step < 1)
      problems.push_back(
          {option + ": behind @ stands a step, the first one is 1", fmt::format("--{} {}@15", fault.name(), what)});
  }
  if (kind == DrillKind::flip || kind == DrillKind::nan || kind == DrillKind::cut) {
    fault.subject = what;
  } else {
    const std::size_t times = kind == DrillKind::slow ? what.find('x') : what.size();
    const auto rank = number_from<int>(what.substr(0, times));
    const auto factor = times < what.size() ? number_from<double>(what.substr(times + 1)) : std::optional(1.0);
    fault.first = fault.last = rank.value_or(0);
    fault.factor = factor.value_or(0);
    const bool slow = kind == DrillKind::slow;
    if (!rank || *rank < 0)
      problems.push_back(
          {option + ": a rank's number comes first", slow ? "--slow 1x1.5@15" : fmt::format("--{} 1@15", fault.name())});
    if (slow && !(fault.factor > 1 && fault.factor <= most_slow)) {
      problems.push_back(
          {fmt::format("{}: behind x stands how many times as long a step takes, above 1 and at most {}", option, most_slow),
           "--slow 1x1.5@15"});
    }
  }
  faults.push_back(std::move(fault));
}

/// What keeps the fault from being played.
std::optional<Problem> obstacle(const DrillFault& fault, const DrillGround& ground) {
  const std::string option = option_of(fault);
  if (fault.step < 1 || fault.step >= ground.steps) {
    return Problem{fmt::format("{}: the copy has {} steps, and the last one must follow the fault", option, ground.steps),
                   fmt::format("train.max_iters={}, or an earlier step", fault.step + 12)};
  }
  if (fault.last >= ground.trainers) {
    return Problem{fmt::format("{}: the ranks that train are 0 to {}", option, ground.trainers - 1),
                   "one of them, or -n N for more"};
  }
  if (fault.changes_weights() && ground.tensors.empty()) {
    return Problem{option + ": cannot be played here, for servers have the weights (train.backend=ps)",
                   "--kill, --stop or --slow"};
  }
  if (fault.changes_weights() && std::ranges::count(ground.tensors, fault.subject) == 0) {
    const std::string near = nearest_name(fault.subject, ground.tensors);
    return Problem{option + ": the model has no such tensor",
                   fmt::format("{}; lockstep inspect names all", near.empty() ? ground.tensors.front() : near)};
  }
  if (fault.kind == DrillKind::cut && ground.hosts.size() < 2) {
    return Problem{option + ": cannot be played here, for all ranks are on one host, and none would be left to notice it",
                   "--hostfile FILE with several hosts, or --stop RANK"};
  }
  if (fault.kind == DrillKind::cut && std::ranges::count(ground.hosts, fault.subject) == 0)
    return Problem{option + ": the job has no such host", "one of: " + ground.hosts.front() + ", " + ground.hosts.back()};
  return std::nullopt;
}

}  // namespace

std::vector<DrillFault> read_faults(const FaultWords& words, std::vector<Problem>& problems) {
  std::vector<DrillFault> faults;
  const auto read = [&](DrillKind kind, const std::vector<std::string>& all) {
    for (const std::string& word : all) read_fault(kind, word, faults, problems);
  };
  read(DrillKind::kill, words.kill);
  read(DrillKind::stop, words.stop);
  read(DrillKind::slow, words.slow);
  read(DrillKind::flip, words.flip);
  read(DrillKind::nan, words.nan);
  read(DrillKind::cut, words.cut);
  if (words.full_disk) faults.push_back({.kind = DrillKind::full_disk, .step = *words.full_disk});
  return faults;
}

void place_faults(std::vector<DrillFault>& faults, const DrillGround& ground, std::vector<Problem>& problems) {
  for (DrillFault& fault : faults) {
    if (fault.step == in_the_middle) fault.step = ground.steps / 2;
    if (const std::optional<Problem> problem = obstacle(fault, ground)) problems.push_back(*problem);
    if (fault.changes_weights() || fault.kind == DrillKind::full_disk) fault.last = ground.trainers - 1;
    if (fault.kind == DrillKind::cut) {
      const auto host = static_cast<int>(std::ranges::find(ground.hosts, fault.subject) - ground.hosts.begin());
      fault.first = host * ground.ranks_per_host;
      fault.last = std::min(fault.first + ground.ranks_per_host, ground.trainers) - 1;
    }
  }
}

std::vector<DrillFault> drawn_faults(std::int64_t count, std::int64_t seed, const DrillGround& ground) {
  constexpr std::uint64_t draws = 4;  // of a fault: kind, step, rank or tensor, factor
  const CounterRng rng(static_cast<std::uint64_t>(seed), "drill.faults");
  std::vector<DrillKind> kinds{DrillKind::kill, DrillKind::stop, DrillKind::slow, DrillKind::full_disk};
  if (!ground.tensors.empty()) kinds.insert(kinds.end(), {DrillKind::flip, DrillKind::nan});
  const std::int64_t first = std::min(ground.first_save + 1, ground.steps - 1);
  std::vector<DrillFault> faults;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count) * draws; i += draws) {
    DrillFault fault{
        .kind = kinds[rng.below(kinds.size(), i)],
        .step = first + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(ground.steps - first), i + 1))};
    if (fault.changes_weights()) {
      fault.subject = ground.tensors[rng.below(ground.tensors.size(), i + 2)];
    } else if (fault.kind != DrillKind::full_disk) {
      fault.first = fault.last = static_cast<int>(rng.below(static_cast<std::uint64_t>(ground.trainers), i + 2));
    }
    if (fault.kind == DrillKind::slow) fault.factor = 1.5 + static_cast<double>(rng.below(6, i + 3)) / 2;
    faults.push_back(std::move(fault));
  }
  return faults;
}

std::string option_of(const DrillFault& fault) {
  const std::string at = fault.step == in_the_middle ? "" : fmt::format("@{}", fault.step);
  switch (fault.kind) {
    case DrillKind::full_disk:
      return fmt::format("--full-disk={}", fault.step);
    case DrillKind::slow:
      return fmt::format("--slow {}x{}{}", fault.first, fault.factor, at);
    case DrillKind::kill:
    case DrillKind::stop:
      return fmt::format("--{} {}{}", fault.name(), fault.first, at);
    default:
      return fmt::format("--{} {}{}", fault.name(), fault.subject, at);
  }
}

std::string about(const DrillFault& fault) {
  switch (fault.kind) {
    case DrillKind::kill:
      return fmt::format("rank {} gets a SIGKILL", fault.first);
    case DrillKind::stop:
      return fmt::format("rank {} gets a SIGSTOP, and hangs", fault.first);
    case DrillKind::slow:
      return fmt::format("rank {} is stopped for {:.0f} ms of each 100", fault.first, 100 - 100 / fault.factor);
    case DrillKind::flip:
      return "one bit of the tensor's first weight changes, on the rank that saves it";
    case DrillKind::nan:
      return "the tensor's first weight becomes NaN, on the rank that saves it";
    case DrillKind::cut:
      return fmt::format("all ranks of {} get a SIGSTOP: rank {}{}", fault.subject, fault.first,
                         fault.first == fault.last ? "" : fmt::format(" to {}", fault.last));
    default:
      return "no file of any rank can grow any more (RLIMIT_FSIZE)";
  }
}

}  // namespace lockstep::app
