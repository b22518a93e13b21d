// `lockstep bench checkpoint`: how fast checkpoints are written and read, and how long training waits for them.

#include "app/bench/bench.h"
#include "lab/saving/bench_checkpoint.h"

namespace lockstep::app {
namespace {

std::optional<Answer> run_checkpoint(BenchLine& line) {
  lab::CheckpointOptions options;
  line.ask_shape();
  line.ask_folder();
  line.ask_ranks();
  line.ask_threads();
  line.count("--zero", options.zero, "N", "as memory.zero: 0, 1, 2 or 3", 0, 3);
  line.ask_rounds(options.rounds, "checkpoints of either kind");
  if (!line.read()) return {};
  options.folder = line.folder();
  const lab::StepShape& shape = line.shape();
  return line.on_ranks([&](Session& session) {
    return answer_of(lab::bench_checkpoint(shape, options, session.runtime(), session.ops(), session.world()));
  });
}

}  // namespace

Bench checkpoint_bench() {
  return {"checkpoint", "saving and loading beside the disk, and beside training",
          "Times four things in turns: checkpoints that training waits for, and loading them again from the device. The same "
          "bytes, written by the ranks with fdatasync and read again. Checkpoints that training goes on beside "
          "(checkpoint.async). It says how long training waits for the last and how much longer its steps take meanwhile.",
          "example:\n  lockstep bench checkpoint --shape gpt2:4x64 --ranks 4 --folder runs", run_checkpoint};
}

}  // namespace lockstep::app
