#pragma once

// Rates of training that was timed, from its sizes alone.

namespace lockstep::planner {

/// What was timed.
struct TimedStep {
  double parameters = 0;  ///< of the model
  double devices = 0;
  double samples = 0;      ///< of a step, over all devices
  double positions = 0;    ///< of a sample
  double seconds = 0;      ///< of a step
  bool recompute = false;  ///< the forward pass is made again in the backward pass, whole
};

/// TFLOPS of each device.
struct Throughput {
  double hardware;  ///< all that are computed: 4 forward passes' worth with recomputation (HFU counts them)
  double model;     ///< those that the model needs: 3 (MFU counts them)
};
/// 2 parameters FLOPs a token and forward pass, of which backward takes two (Kaplan et al. 2020, section 2.1): attention's own
/// are left out.
Throughput throughput(const TimedStep& step);

}  // namespace lockstep::planner
