#pragma once

// The proof of what the program promises (docs/numerics.md). It runs layouts of one training, each on ranks that are threads of
// this process. All that the ranks have is compared with the training on one rank.

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "lab/verify/comparison.h"

namespace lockstep::lab {

enum class Verdict : std::uint8_t {
  bit_equal,
  within_tolerance,
  wrong,  ///< the promise is broken
  error   ///< the run, or the one that it is compared with, did not come to its end: nothing is known of the promise
};
/// "bit-equal", "within tolerance", "WRONG", "error".
std::string_view name_of(Verdict verdict);

/// What ended a run before its last step.
struct RunFailure {
  std::exception_ptr thrown = {};  ///< null where nothing ended it
  std::string reason = {};         ///< in words
};

/// The result of one layout.
struct LayoutReport {
  std::string model, layout;
  std::string against;         ///< the layout that it is compared with
  bool promises_bits = false;  ///< false: sums have another order, and a tolerance holds
  double tolerance = 0;        ///< of losses and gradients; 0 where bits are promised
  bool wanted = true;          ///< false: run only because others are compared with it
  int ranks = 1, steps = 0;
  double seconds = 0;
  Verdict verdict = Verdict::bit_equal;
  std::string worst = {};  ///< "gradient of transformer.h.3.ln_1.weight": what is farthest off; empty: nothing is off
  double error = 0;        ///< relative, of `worst`
  RunFailure failure = {};
  std::vector<std::string> wrong =
      {};  ///< what breaks the promise: the first tensor with its layer, step and rank, then how much else
};

/// The most ranks of a layout: each is a thread.
inline constexpr int most_verify_ranks = 64;

struct VerifyOptions {
  std::vector<VerifyModel> models;
  std::vector<Layout> layouts;
  int steps = 3;
  DeviceKind device = DeviceKind::cpu;  ///< of layouts, and of what they are compared with where bits are this device's
  bool as_possible = false;             ///< layouts that a model cannot have are left out; false: they are refused
};

/// What is wrong with the options; empty: nothing.
std::vector<Problem> check(const VerifyOptions& options);

/// Runs every layout of `options`, which have passed check(), for every model. Layouts with the same sums come one after another,
/// behind the plain one. Calls told(report) after each layout. `parts`: what the ranks of layouts are made of. It does not apply
/// to runs that others are compared with.
std::vector<LayoutReport> verify(const VerifyOptions& options, const std::function<void(const LayoutReport&)>& told,
                                 const TrialParts& parts = {});

}  // namespace lockstep::lab
