#pragma once

// A fault that a rank plays itself, once, because `lockstep drill` asks for it by LOCKSTEP_DRILL.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/log.h"
#include "train/engine.h"
#include "train/report/run_listener.h"

namespace lockstep::train {

enum class DrillKind : std::uint8_t { kill, stop, slow, flip, nan, cut, full_disk };
inline constexpr std::array<std::string_view, 7> drill_kinds{"kill", "stop", "slow", "flip", "nan", "cut", "full-disk"};

struct DrillFault {
  static constexpr const char* variable = "LOCKSTEP_DRILL";

  DrillKind kind = DrillKind::kill;
  int first = 0, last = 0;   ///< ranks that play it; for flip and nan the one that saves the tensor's first element
  std::int64_t step = 0;     ///< it is played as this step begins; the first one is 1
  std::string subject = {};  ///< the tensor, or the host that is cut off
  double factor = 1;         ///< slow: a step takes so many times its seconds

  std::string_view name() const { return drill_kinds[static_cast<std::size_t>(kind)]; }
  bool changes_weights() const { return kind == DrillKind::flip || kind == DrillKind::nan; }
};

/// `played`: a folder in which each rank that has played leaves a file of its number.
std::string drill_text(const DrillFault& fault, const io::Path& played);

class DrillPlayer final : public RunListener {
 public:
  /// `text` is a drill_text(). `engine` and `log` outlive this. Throws UserError for another text.
  DrillPlayer(const std::string& text, Engine& engine, Log& log);
  void started(const RunState& state) override;
  void step_begins(std::int64_t step) override;

 private:
  void play();
  /// Flips a bit of the tensor's first element, or makes it NaN; false where another rank has the element.
  bool change_weight();
  void mark() const;

  DrillFault fault_;
  io::Path mark_;
  int rank_;
  Engine& engine_;
  Log& log_;
};

/// Adds a player to `outputs` where the environment asks for one. `engine` and `log` outlive it.
void add_drill(RunListeners& outputs, Engine& engine, Log& log);

}  // namespace lockstep::train
