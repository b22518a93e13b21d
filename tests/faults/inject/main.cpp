// Injects faults and power cuts into lockstep's commands, and says where an invariant broke.
//   inject_faults [--faults N] [--cuts N] [--jobs N] [--only SCENARIO] [--at CALL] [--calls]
// N faults and N power cuts a scenario, sampled evenly; --at: every fault of one call; --calls lists the calls and injects
// nothing. Exit code: 0, 1 when an invariant broke, 77 when the system refuses to trace.

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "faults/in_memory.h"
#include "faults/inject/plan.h"
#include "support/temp_folder.h"

namespace lockstep::faults {
namespace {

constexpr int skipped = 77;

struct Options {
  std::size_t faults = std::numeric_limits<std::size_t>::max(), cuts = std::numeric_limits<std::size_t>::max();
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  std::size_t at = 0;
  std::string only;
  bool calls = false;
};

Options parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--calls") {
      options.calls = true;
      continue;
    }
    if (++i == words.size()) throw std::runtime_error(word + " has no value");
    std::size_t number = 0;
    const char* end = words[i].data() + words[i].size();
    const bool is_number = std::from_chars(words[i].data(), end, number).ptr == end;
    if (word == "--only") {
      options.only = words[i];
    } else if (!is_number) {
      throw std::runtime_error(words[i] + " is no number");
    } else if (word == "--faults") {
      options.faults = number;
    } else if (word == "--cuts") {
      options.cuts = number;
    } else if (word == "--jobs") {
      options.jobs = std::max<std::size_t>(number, 1);
    } else if (word == "--at") {
      options.at = number;
    } else {
      throw std::runtime_error("unknown: " + word);
    }
  }
  return options;
}

/// One scenario: what was tried, and what broke.
class Trial {
 public:
  Trial(const Scenario& scenario, const Options& options, const Path& program, const Path& folder)
      : options_(options),
        program_(program),
        folder_(folder / scenario.name),
        site_(program, folder_),
        rehearsal_(rehearse(scenario, site_)) {
    if (options.calls) return;
    for (const Fault& fault :
         sampled(all_faults(rehearsal_.calls), options.at > 0 ? std::numeric_limits<std::size_t>::max() : options.faults)) {
      if (options.at == 0 || options.at == fault.at) faults_.push_back(fault);
    }
    if (options.at == 0) cuts_ = sampled(rehearsal_.disk.cuts(), options.cuts);
  }

  /// Returns the number of violations.
  std::size_t run() {
    {
      std::vector<std::jthread> threads;
      for (std::size_t job = 0; job < options_.jobs; ++job) threads.emplace_back([this, job] { work(job); });
    }
    fmt::print("{:<26} {:>6} {:>7} {:>11} {:>11}\n", rehearsal_.scenario->name, rehearsal_.calls.size(), faults_.size(),
               cuts_.size(), broken_);
    std::fflush(stdout);
    return broken_;
  }

  void list_calls() const {
    for (std::size_t i = 0; i < rehearsal_.calls.size(); ++i)
      fmt::print("{} {:>4} {}\n", rehearsal_.scenario->name, i + 1, rehearsal_.calls[i].text(site_.folder()));
  }

 private:
  void work(std::size_t job) {
    Site site(program_, folder_.native() + fmt::format("-{}", job));
    for (std::size_t i = next_++; i < faults_.size() + cuts_.size(); i = next_++) {
      const bool cut = i >= faults_.size();
      const std::string what = cut ? cuts_[i - faults_.size()].text() : text_of(faults_[i]);
      try {
        tell(what, cut ? try_cut(rehearsal_, cuts_[i - faults_.size()], site) : try_fault(rehearsal_, faults_[i], site));
      } catch (const std::exception& error) {
        tell(what, {error.what()});
      }
    }
  }

  std::string text_of(const Fault& fault) const {
    return fmt::format("{} at call {}, {}", fault.text(), fault.at, rehearsal_.calls[fault.at - 1].text(site_.folder()));
  }

  void tell(const std::string& what, const std::vector<std::string>& violations) {
    const std::lock_guard lock(mutex_);
    if (!violations.empty()) ++broken_;
    for (const std::string& violation : violations) fmt::print("{}: {}: {}\n", rehearsal_.scenario->name, what, violation);
  }

  const Options& options_;
  const Path& program_;
  Path folder_;
  Site site_;
  Rehearsal rehearsal_;
  std::vector<Fault> faults_;
  std::vector<Cut> cuts_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::size_t broken_ = 0;
};

int inject(const Options& options) {
  const std::string why = why_not_traced();
  if (!why.empty()) {
    fmt::print("skipped: this system does not let a program be traced: {}\n", why);
    return skipped;
  }
  // Nothing is looked for at the end of a program that is traced.
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  const Path program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lockstep";
  keep_folders_in_memory();
  const TempFolder folder;
  std::vector<Scenario> scenarios = data_scenarios();
  for (Scenario& scenario : training_scenarios()) scenarios.push_back(std::move(scenario));
  for (Scenario& scenario : model_scenarios()) scenarios.push_back(std::move(scenario));
  for (Scenario& scenario : launch_scenarios()) scenarios.push_back(std::move(scenario));
  std::size_t broken = 0, tried = 0;
  fmt::print("{:<26} {:>6} {:>7} {:>11} {:>11}\n", "scenario", "calls", "faults", "power cuts", "violations");
  for (const Scenario& scenario : scenarios) {
    if (!options.only.empty() && scenario.name != options.only) continue;
    Trial trial(scenario, options, program, std::filesystem::canonical(folder.path()));
    options.calls ? trial.list_calls() : void(broken += trial.run());
    ++tried;
  }
  if (tried == 0) throw std::runtime_error("there is no scenario " + options.only);
  return broken > 0 ? 1 : 0;
}

}  // namespace
}  // namespace lockstep::faults

int main(int argc, char** argv) {
  try {
    return lockstep::faults::inject(lockstep::faults::parse({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "inject_faults: %s\n", error.what());
    return 2;
  }
}
