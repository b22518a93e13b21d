#pragma once

// Training throughput in TFLOPS of a step that was timed, from the sizes of model and batch alone.

namespace lockstep::planner {

/// A training step that was timed.
struct TimedStep {
  double parameters = 0;  ///< of the model
  double devices = 0;
  double samples = 0;      ///< of a step, over all devices
  double positions = 0;    ///< of a sample
  double seconds = 0;      ///< of a step
  bool recompute = false;  ///< whether the whole forward pass is computed again in the backward pass
};

/// TFLOPS of each device.
struct Throughput {
  double hardware;  ///< of all operations: 4 forward passes' worth with recomputation (HFU)
  double model;     ///< of operations that the model needs: 3 forward passes' worth (MFU)
};
/// A forward pass has 2 FLOPs a parameter and token, and a backward pass twice that (Kaplan et al. 2020, section 2.1). The
/// products of attention's scores are left out.
Throughput throughput(const TimedStep& step);

}  // namespace lockstep::planner
