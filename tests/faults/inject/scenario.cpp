#include "faults/inject/scenario.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/file.h"

namespace lockstep::faults {

void Aftermath::demand_success(const Words& words, const std::string& output) {
  const Outcome outcome = site.run(words, output);
  if (outcome.code != 0)
    violations.push_back(
        fmt::format("lockstep {} afterwards ends with {}: {}", fmt::join(words, " "), outcome.code, site.said()));
}

void Aftermath::demand_same(const Tree& is, const Tree& expected, const std::string& what) {
  const std::string differs = difference(is, expected);
  if (!differs.empty()) violations.push_back(fmt::format("{}: {}", what, differs));
}

void write_text(const Site& site, const std::string& name, int salt) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += fmt::format("the quick brown fox {} jumps over the lazy dog.\n", i * i * salt % 97);
  io::replace_file(site.folder() / name, text);
}

void must_run(Site& site, const Words& words) {
  const Outcome outcome = site.run(words);
  if (outcome.code != 0)
    throw SystemError(fmt::format("lockstep {} ended with {}: {}", fmt::join(words, " "), outcome.code, site.said()));
}

Words train_words(const Words& more) {
  Words words{"train",
              "data.dir=data",
              "log.dir=run",
              "model.n_layer=1",
              "model.n_head=1",
              "model.n_embd=8",
              "model.block_size=8",
              "model.batch_size=2",
              "train.eval_iters=1",
              "train.log_interval=1",
              "train.warmup_iters=1",
              "train.threads=1",
              "train.peak_tflops=1",
              "sample.tokens=2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace lockstep::faults
