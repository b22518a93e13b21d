#pragma once

// How the ranks of a run come together beside its steps. As it stands here, ranks take every step together; workers of parameter
// servers that do not wait for each other have another one (train/server).

#include <cstdint>

namespace lockstep::train {

class RunControl {
 public:
  virtual ~RunControl() = default;
  /// All ranks wait for each other and hold the newest weights. Collective.
  virtual void settle() {}
  /// Whether all ranks meet after `step` steps, so that they may decide together. `wanted`: this rank would like to, soon.
  virtual bool is_sync_point(std::int64_t /*step*/, bool /*wanted*/) { return true; }
  /// A cause to stop (train::StopCause) that a rank of another kind has found; 0: none.
  virtual int remote_stop_cause() const { return 0; }
  /// This rank takes no further step.
  virtual void leave() {}
};

}  // namespace lockstep::train
