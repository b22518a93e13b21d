#pragma once

// What a run minimises: token losses, or a loss of whole samples' log-probabilities. Another objective is a row of the table in
// objective.cpp and a file.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/values/choice.h"

namespace lockstep::train {

enum class Objective : std::uint8_t {
  lm,   ///< the mean loss of tokens
  sft,  ///< the mean loss of the tokens that the text's mask marks as taught
  dpo   ///< direct preference optimisation: pairs of samples, of which one is preferred
};

struct ObjectiveSettings {
  Objective kind = Objective::lm;
  double beta = 0.1;           ///< dpo: how far the model may leave its reference; above 0
  double label_smoothing = 0;  ///< dpo: the share of pairs that are thought to be the wrong way round; below 0.5
};

/// Figures of a step beside its loss, by name: sums over groups of samples. Names live as long as the program.
struct SampleFigures {
  static constexpr std::size_t most = 6;
  std::span<const std::string_view> names;
  std::array<double, most> values = {};
};
/// ", rewards/accuracies 0.75, rewards/margins 0.12": the first two figures, for a log line; empty without any.
std::string line_of(const std::optional<SampleFigures>& figures);

/// A loss of a group of samples. A group's samples are neighbours in the text, so in one micro-batch. Stateless.
class SampleLoss {
 public:
  virtual ~SampleLoss() = default;
  virtual int together() const = 0;
  /// Names of the figures, at most SampleFigures::most. Log lines have the first two.
  virtual std::span<const std::string_view> figures() const = 0;
  /// The loss of one group. `own` and `reference` are the log-probabilities of its samples' targets by the model and by the
  /// reference. `slopes` gets the loss's derivatives by `own`. These have together() elements each; `figures` has as many as
  /// figures().
  virtual double judge(std::span<const double> own, std::span<const double> reference, std::span<double> slopes,
                       std::span<double> figures) const = 0;
};

/// Direct preference optimisation, with label smoothing (train/objective/dpo.cpp).
std::unique_ptr<SampleLoss> make_dpo(const ObjectiveSettings& settings);

struct ObjectiveRow {
  Objective kind;
  bool needs_mask;                                                ///< the text says what is taught
  std::unique_ptr<SampleLoss> (*make)(const ObjectiveSettings&);  ///< null: token losses
};
const ObjectiveRow& row_of(Objective kind);
/// Null where losses are those of tokens.
std::unique_ptr<SampleLoss> make_sample_loss(const ObjectiveSettings& settings);

}  // namespace lockstep::train

namespace lockstep {
template <>
struct Choice<train::Objective> {
  static constexpr std::array<Named<train::Objective>, 3> all{
      {{"lm", train::Objective::lm}, {"sft", train::Objective::sft}, {"dpo", train::Objective::dpo}}};
};
}  // namespace lockstep
