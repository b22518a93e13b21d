#pragma once

// A copy that is played: `lockstep launch --retries` in a process of its own, watched from outside.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "app/drill/drill_copy.h"
#include "io/file.h"

namespace lockstep::app {

struct DrillOutcome {
  int code = 0;                          ///< exit code of launch
  double seconds = 0;                    ///< all in all
  bool played = false;                   ///< the fault came
  std::optional<double> found, goes_on;  ///< seconds from the fault to the first word of it, and to the next step done
  std::string said, last;                ///< the first word of the fault, and the last word; without a fault the first of all
  std::int64_t repeated = 0;             ///< steps that were done twice
  std::optional<std::int64_t> saved;     ///< step of the last checkpoint
  std::string hash;                      ///< hash of that checkpoint's weights, where the copy came to its end
  std::set<std::string> usual;           ///< warnings of the copy, which say nothing of a fault
};

class DrillStage {
 public:
  /// `folder` is there, and holds what copies write.
  DrillStage(const DrillCopy& copy, io::Path folder);

  using Told = std::function<void(std::int64_t step)>;
  /// Plays the copy without a fault, which others are compared with. Throws SystemError where it fails.
  const DrillOutcome& undisturbed(const Told& told);
  /// Plays a copy in `name`, a folder within the stage's. `keeps`: that folder stays.
  DrillOutcome disturbed(const train::DrillFault& fault, const std::string& name, bool keeps, const Told& told) const;

 private:
  DrillOutcome play(const std::string& name, const train::DrillFault* fault, const Told& told) const;
  std::vector<std::string> words(const io::Path& run) const;

  const DrillCopy& copy_;
  io::Path folder_;
  DrillOutcome reference_;
};

}  // namespace lockstep::app
