#pragma once

// A training of `demo`: always the same model, text and seed, in any layout. It is `train` itself, in a process of its own that
// may be killed.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/start/session.h"
#include "io/file.h"
#include "lab/layouts.h"
#include "lab/verify/verify_model.h"

namespace lockstep::app {

inline constexpr std::int64_t demo_samples = 16;  ///< samples of a step

/// How long the training is.
struct DemoLength {
  std::int64_t steps, save_interval;
  std::int64_t last_kill;  ///< a later kill could come when the training has ended
  /// SHA-256 of the weights that every training ends with on AVX2, AVX-512 and NEON (demo_hash()).
  std::string_view hash;
};
inline constexpr DemoLength whole_demo{200, 20, 190, "83d516787d9412fa3c4df485cdfcbde20d79360d24c6bf902ee9f3c25c75e400"};
/// The first steps of the training.
inline constexpr DemoLength short_demo{20, 4, 16, "42e750d46a3735733e9d6101c55b921a11c2c4ec3077424e3cc3caa6b0321f7c"};

/// The layout that these words name, with canonical sums. Adds what is wrong with it to `problems`.
std::optional<lab::Layout> demo_layout(const std::string& words, std::vector<Problem>& problems);
/// A layout from a fixed list, by a number.
std::string drawn_layout(std::uint64_t number);
/// What verify trains in the demo's place to find a fault: the same model, on other tokens.
lab::VerifyModel demo_verify_model(const lab::Layout& layout);

struct DemoTraining {
  io::Path folder;  ///< of the run; its text lies beside it
  lab::Layout layout = {};
  ops::Isa isa = ops::Isa::automatic;
  DemoLength length = whole_demo;
  decltype(RankOptions::around) around = {};  ///< a fault, planted
};

/// Text and tokens in a folder, for runs beside them.
void prepare_demo(const io::Path& folder);
/// The words with which `lockstep train` does this training.
std::vector<std::string> train_words(const DemoTraining& training);

struct DemoOutcome {
  int code = 0;            ///< the exit code; 128 + the signal that killed it
  std::string last_words;  ///< what the training said last, where it failed
  std::int64_t steps = 0;  ///< steps that it has told of
  double first_loss = 0, last_loss = 0;
  double seconds = 0;
};
/// Trains to the end, from what the folder has, if anything. `kill_at`: the training gets a SIGKILL as soon as it has told of
/// that step. `told` is called for each step, with its loss.
DemoOutcome train_demo(const DemoTraining& training, std::optional<std::int64_t> kill_at,
                       const std::function<void(std::int64_t step, double loss)>& told);

/// SHA-256 of the weights of the run's last checkpoint, in the order of their names. Each gives its name, a zero byte, and its
/// elements as little-endian fp32.
std::string demo_hash(const io::Path& run);

}  // namespace lockstep::app
