// Training: a run is never lost, and goes on to the bits that it would have had.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <sstream>

#include "base/json.h"
#include "faults/inject/scenario.h"
#include "io/file.h"

namespace lockstep::faults {
namespace {

constexpr std::string_view damage = "damaged";

/// The newest checkpoint's step, of those that the set-up has not damaged; -1: there is none.
int newest_step(const Tree& tree) {
  int newest = -1;
  for (const auto& [name, content] : tree) {
    int step = 0;
    const bool manifest = std::sscanf(name.c_str(), "run/checkpoints/step_%d/", &step) == 1 && name.ends_with("/manifest.json");
    if (manifest && content != damage) newest = std::max(newest, step);
  }
  return newest;
}

bool has_damage(const Tree& tree) {
  return std::any_of(tree.begin(), tree.end(), [](const auto& file) { return file.second == damage; });
}

/// Names of what commands leave for others to clear away.
std::string remnants(const Tree& tree) {
  std::string names;
  for (const auto& [name, content] : tree) {
    const bool remnant = name.find(".partial") != std::string::npos || name.find(".removed") != std::string::npos ||
                         name.find(".replaced") != std::string::npos || name.find(".lockstep-offload") != std::string::npos ||
                         name.ends_with("run.lock");
    if (remnant) names += " " + name;
  }
  return names;
}

void check_lines(Aftermath& after, const Tree& tree, const std::string& name) {
  const auto found = tree.find("run/" + name);
  if (found == tree.end()) return;
  std::istringstream lines(found->second);
  for (std::string line; std::getline(lines, line);) {
    try {
      Json::parse(line, name);
    } catch (const std::exception& error) {
      after.demand(false, fmt::format("a line of {} is torn: {}", name, error.what()));
    }
  }
}

/// So far, with a save after every step.
Words run_to(const std::string& from, int steps, const Words& more = {}) {
  Words words = train_words({"train.init_from=" + from, "train.eval_interval=1", fmt::format("train.max_iters={}", steps)});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Weights and optimizer of a step.
Tree bits_of(const Tree& tree, int step) {
  Tree bits = part_of(tree, fmt::format("run/checkpoints/step_{}/", step));
  bits.erase("manifest.json");  // which names folders
  return bits;
}

/// Demands that the run is there as it was or further on, all of it whole. Going on (with these words, too) must bring it where
/// it would have got undisturbed.
void check_run(Aftermath& after, const Words& more = {}) {
  const Tree left = read_tree(after.site.folder());
  const int before = newest_step(after.before), end = newest_step(after.after);
  after.demand(newest_step(left) >= before, "the newest checkpoint is gone");
  after.demand(!after.succeeded || newest_step(left) == end, "success without the last checkpoint");
  if (left.contains("run/config.toml") && !has_damage(left)) after.demand_success({"inspect", "run", "--verify"});
  const bool resumes = newest_step(left) >= 0;
  if (resumes) after.demand_success({"generate", "--model", "run", "--tokens", "1", "--checkpoint", "last", "--threads", "1"});
  after.demand_success(run_to("auto", end, more));
  Tree further = read_tree(after.site.folder());
  after.demand_same(bits_of(further, end), bits_of(after.after, end), "the run went on to other bits");
  for (const char* name : {"metrics.jsonl", "samples.jsonl", "wandb-history.jsonl"}) check_lines(after, further, name);
  after.demand_success({"inspect", "run", "--verify"});
  if (remnants(further).empty()) return;
  after.demand_success(run_to("auto", end + 1, more));  // the next save clears up
  further = read_tree(after.site.folder());
  after.demand(remnants(further).empty(), "left by all:" + remnants(further));
}

void make_data(Site& site) {
  write_text(site, "text.txt", 1);
  io::make_folders(site.folder() / "disk");  // for what is offloaded
  must_run(site, {"prepare", "text.txt", "--out", "data"});
}

void make_run(Site& site, int steps, const Words& more = {}) {
  make_data(site);
  must_run(site, run_to("scratch", steps, more));
}

/// A newer checkpoint that is damaged stands where the resumed run will save.
void damage_newest(Site& site) {
  make_run(site, 3);
  Tree tree = read_tree(site.folder());
  tree["run/checkpoints/step_3/manifest.json"] = damage;
  site.reset(tree);
}

int cannot_exchange(const Call& call) {
  return call.kind->name == "renameat2" && (call.flags & RENAME_EXCHANGE) != 0 ? EINVAL : 0;
}

}  // namespace

std::vector<Scenario> training_scenarios() {
  const auto check = [](Aftermath& after) { check_run(after); };
  const auto run_of = [](int steps) { return [steps](Site& site) { make_run(site, steps); }; };
  const Words two_ranks{"--ranks", "2", "memory.zero=2", "log.tensorboard=true"};
  const Words beside{"checkpoint.async=true"}, beside_on_two{"--ranks", "2", "memory.zero=2", "checkpoint.async=true"};
  const Words offloaded{"memory.offload_optimizer=nvme", "memory.nvme_path=disk", "checkpoint.async=true"};
  const Words with_history{"log.wandb=offline"};
  const auto scenario = [](const char* name, int steps, const Words& more) {
    return Scenario{
        .name = name, .set_up = make_data, .command = run_to("scratch", steps, more), .check = [more](Aftermath& after) {
          check_run(after, more);
        }};
  };
  return {
      {.name = "train", .set_up = make_data, .command = run_to("scratch", 2), .check = check},
      scenario("train-two-ranks", 1, two_ranks),
      scenario("async", 3, beside),
      scenario("async-two-ranks", 2, beside_on_two),
      scenario("offload", 2, offloaded),
      {.name = "resume", .set_up = run_of(2), .command = run_to("resume", 3), .check = check},
      {.name = "resume-wandb",
       .set_up = [with_history](Site& site) { make_run(site, 1, with_history); },
       .command = run_to("resume", 2, with_history),
       .check = [with_history](Aftermath& after) { check_run(after, with_history); }},
      {.name = "retention", .set_up = run_of(4), .command = run_to("resume", 6), .check = check},
      {.name = "replace", .set_up = damage_newest, .command = run_to("resume", 3), .check = check},
      {.name = "replace-without-exchange",
       .set_up = damage_newest,
       .command = run_to("resume", 3),
       .refused = cannot_exchange,
       .check = check},
  };
}

}  // namespace lockstep::faults
