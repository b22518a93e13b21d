#pragma once

// The trace of a run's first steps: what every rank did when, in one file. What is timed is what the host sees; on the CPU that
// is when kernels run.

#include <cstdint>
#include <string>

#include "base/chrome_trace.h"
#include "base/log.h"
#include "base/span_log.h"
#include "comm/communicator.h"
#include "io/file.h"
#include "ops/op_scope.h"
#include "train/report/run_listener.h"

namespace lockstep::train {

/// An observer of ops that writes their spans into its log.
class OpSpans final : public ops::OpObserver {
 public:
  SpanLog& log() { return log_; }
  void begin(const ops::OpCall& call) override;
  void end(const ops::OpCall& call) noexcept override;

 private:
  SpanLog log_;
  double start_ = 0;
};

/// Converts seconds of a rank's clock into seconds of the trace.
struct TraceClock {
  double shift = 0;   ///< to rank 0's clock
  double origin = 0;  ///< on rank 0's clock
  double operator()(double seconds) const { return seconds + shift - origin; }
};

/// A rank's spans in rows, as process `rank` of the trace. The first row is what the rank computes and waits for. Exchanges
/// between ranks, and moves to and from a disk, have as many rows below as overlap at a time.
ChromeTrace trace_of_rank(const SpanLog& log, int rank, const TraceClock& clock);

/// Seconds to add to this rank's clock to get rank 0's. 0 where the clocks differ by less than a message takes (ranks of one
/// host). Collective.
double clock_shift(comm::Communicator& ranks);

class RunTrace final : public RunListener {
 public:
  /// Traces `steps` steps from the run's next one on. `spans` is where they are kept, and `ranks` are all that train. Exchanges
  /// of `ranks` are told to `spans` until the trace is destroyed. `spans`, `ranks` and `log` outlive it.
  RunTrace(io::Path file, std::int64_t steps, SpanLog& spans, comm::Communicator& ranks, Log& log);
  ~RunTrace() override;

  void step_begins(std::int64_t step) override;
  void step_taken(std::int64_t step, const data::StepBatches& batches, const StepResult& result) override;
  void spent(std::string_view what, double begun) override;
  /// Writes the file once all steps are done. All ranks have done as many steps.
  void met() override;
  void finished(const RunEnd& /*end*/) override { write(); }

 private:
  bool complete() const { return done_ == steps_; }
  /// Rank 0 writes all ranks' rows into one file. Where it cannot, it logs a warning and the run goes on. Once; no file without a
  /// step. Collective.
  void write();

  io::Path file_;
  std::int64_t steps_, done_ = 0, step_ = 0;
  double step_began_ = 0;
  bool written_ = false;
  SpanLog& spans_;
  comm::Communicator& ranks_;
  Log& log_;
};

}  // namespace lockstep::train
