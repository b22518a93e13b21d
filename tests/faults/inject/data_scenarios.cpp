// Preparing text: the old data or the new, never a mixture.

#include "faults/inject/scenario.h"

namespace lockstep::faults {
namespace {

const Words prepare_text{"prepare", "text.txt", "--out", "data", "--shards", "2", "--threads", "1"};

// A prepared folder as readers see it: what waits to be moved into its place comes first (data/prepare/staging.h).
Tree as_read(const Tree& folder) {
  Tree seen = folder;
  for (const auto& [name, content] : part_of(folder, ".prepared/")) {
    if (part_of(folder, ".prepared/").contains("tokens.json") && !name.ends_with('/')) seen[name] = content;
  }
  return seen;
}

void check_data(Aftermath& after) {
  const Tree left = as_read(part_of(read_tree(after.site.folder()), "data/"));
  const Tree old_data = part_of(after.before, "data/"), new_data = part_of(after.after, "data/");
  if (after.succeeded) after.demand_same(left, new_data, "success with other files");
  const bool has_tokens = left.contains("tokens.json");
  after.demand(has_tokens || !old_data.contains("tokens.json"), "the old data is gone");
  if (has_tokens) {
    after.demand_success({"inspect", "data", "--verify"});
    const bool is_new = left.at("tokens.json") == new_data.at("tokens.json");
    for (const auto& [name, content] : is_new ? new_data : old_data) {
      const auto found = left.find(name);
      after.demand(found != left.end() && found->second == content, "neither the old data nor the new: " + name);
    }
    after.demand_success(train_words({"train.max_iters=1", "train.eval_interval=1"}));
  }
  after.demand_success(prepare_text);
  after.demand_same(part_of(read_tree(after.site.folder()), "data/"), new_data, "prepared once more, it is not the new data");
}

/// The folder has the tokens of another text, in other shards.
void prepare_another_text(Site& site) {
  write_text(site, "text.txt", 5);
  must_run(site, {"prepare", "text.txt", "--out", "data", "--shards", "3", "--threads", "1"});
  write_text(site, "text.txt", 1);
}

}  // namespace

std::vector<Scenario> data_scenarios() {
  return {{.name = "prepare",
           .set_up = [](Site& site) { write_text(site, "text.txt", 1); },
           .command = prepare_text,
           .check = check_data},
          {.name = "prepare-again", .set_up = prepare_another_text, .command = prepare_text, .check = check_data}};
}

}  // namespace lockstep::faults
