// What reads a run and writes something else: the run stays as it is, and the other thing is whole or not there.

#include "faults/inject/scenario.h"

namespace lockstep::faults {
namespace {

void make_run(Site& site) {
  write_text(site, "text.txt", 1);
  must_run(site, {"prepare", "text.txt", "--out", "data", "--tokenizer", "bpe:260"});
  must_run(site, train_words({"train.max_iters=1", "train.eval_interval=1"}));
}

void check_sources(Aftermath& after, const Tree& left) {
  for (const char* folder : {"run/", "data/", "published/"})
    after.demand_same(part_of(left, folder), part_of(after.before, folder), folder);
}

/// "to" is there as a whole or not at all; the command can be given again.
std::function<void(Aftermath&)> check_conversion(const Words& command, const Words& reads) {
  return [command, reads](Aftermath& after) {
    const Tree left = read_tree(after.site.folder());
    check_sources(after, left);
    const bool there = left.contains("to/");
    after.demand(there || !after.succeeded, "success without a result");
    if (there) after.demand_same(part_of(left, "to/"), part_of(after.after, "to/"), "not the whole result");
    if (!there) after.demand_success(command);
    after.demand_success(reads);
    Tree end = read_tree(after.site.folder());
    after.demand_same(end, after.after, "in the end");
  };
}

/// The same of a file, beside which a Modelfile appears after it.
std::function<void(Aftermath&)> check_gguf(const Words& command) {
  return [command](Aftermath& after) {
    const Tree left = read_tree(after.site.folder());
    check_sources(after, left);
    const auto is_whole = [&](const char* name) { return left.contains(name) && left.at(name) == after.after.at(name); };
    const bool there = left.contains("to.gguf");
    after.demand(!there || is_whole("to.gguf"), "not the whole file");
    after.demand(!left.contains("Modelfile") || is_whole("Modelfile"), "not the whole Modelfile");
    after.demand((there && left.contains("Modelfile")) || !after.succeeded, "success without a result");
    if (there) return;
    after.demand_success(command);
    after.demand_same(read_tree(after.site.folder()), after.after, "in the end");
  };
}

Words generate(const std::string& model) {
  return {"generate", "--model", model, "--prompt", "the quick", "--tokens", "1", "--samples", "2", "--threads", "1"};
}

/// inspect --verify tells of what it could not read beside what it read.
bool finds_damage(const std::string& text) { return text.find("DAMAGED OR UNREADABLE:") != std::string::npos; }

/// What `command` printed into a file is its text, or the start of it after an error.
void check_text(Aftermath& after, const Words& command) {
  const Tree left = read_tree(after.site.folder());
  check_sources(after, left);
  const auto is = left.find("text.out");
  const std::string& whole = after.after.at("text.out");
  if (after.succeeded)
    after.demand(is != left.end() && is->second == whole, "success, but the text is not what was to be written");
  const bool is_start = is == left.end() || whole.starts_with(is->second) || finds_damage(is->second);
  after.demand(is_start, "what was written is not the start of the text");
  after.demand_success(command, "text.out");
  after.demand_same(read_tree(after.site.folder()), after.after, "in the end");
}

}  // namespace

std::vector<Scenario> model_scenarios() {
  const Words publish{"convert", "run", "to", "--shard-size", "1", "--threads", "1"};
  const Words gguf{"convert", "run", "to.gguf", "--type", "q8_0", "--threads", "1"};
  const Words inspect{"inspect", "run", "--verify"};
  const Words import{"convert", "published", "to", "--threads", "1"};
  const auto make_published = [](Site& site) {
    make_run(site);
    must_run(site, {"convert", "run", "published"});
  };
  return {
      {.name = "convert-to-hugging-face",
       .set_up = make_run,
       .command = publish,
       .check = check_conversion(publish, generate("to"))},
      {.name = "convert-from-hugging-face",
       .set_up = make_published,
       .command = import,
       .check = check_conversion(import, {"inspect", "to", "--verify"})},
      {.name = "convert-to-gguf", .set_up = make_run, .command = gguf, .check = check_gguf(gguf)},
      {.name = "generate",
       .set_up = make_run,
       .command = generate("run"),
       .output = "text.out",
       .check = [](Aftermath& after) { check_text(after, generate("run")); }},
      {.name = "inspect",
       .set_up = make_run,
       .command = inspect,
       .output = "text.out",
       .tells = finds_damage,
       .check = [inspect](Aftermath& after) { check_text(after, inspect); }},
  };
}

}  // namespace lockstep::faults
