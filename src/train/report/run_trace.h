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

namespace lockstep::train {

/// Tells a log of ops, and has it.
class OpSpans final : public ops::OpObserver {
 public:
  SpanLog& log() { return log_; }
  void begin(const ops::OpCall& call) override;
  void end(const ops::OpCall& call) noexcept override;

 private:
  SpanLog log_;
  double start_ = 0;
};

/// A trace's seconds from a rank's.
struct TraceClock {
  double shift = 0;   ///< to rank 0's clock
  double origin = 0;  ///< on rank 0's clock
  double operator()(double seconds) const { return seconds + shift - origin; }
};

/// A rank's spans in rows: what it computes and waits for, and below as many rows each of what is under way between ranks, or to
/// and from a disk, as there is at a time. Process `rank` of the trace.
ChromeTrace trace_of_rank(const SpanLog& log, int rank, const TraceClock& clock);

/// Seconds to add to this rank's clock for rank 0's: 0 where both read alike within what a message takes (ranks of one host).
/// Collective.
double clock_shift(comm::Communicator& ranks);

class RunTrace {
 public:
  /// Of the `steps` steps from the first begin_step() on. `spans`, the memory that they are kept in, and `ranks` (all that train)
  /// outlive it; exchanges of theirs are told to `spans` until its end.
  RunTrace(io::Path file, std::int64_t steps, SpanLog& spans, comm::Communicator& ranks);
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;
  ~RunTrace();

  SpanLog& spans() { return spans_; }
  void begin_step(std::int64_t step);
  void end_step();
  /// Something beside the steps, until now.
  void tell(std::string_view what, double begun);
  /// All its steps are done, and it is not written yet; the same on all ranks that have done as many.
  bool complete() const { return !written_ && done_ == steps_; }
  /// All ranks' rows into one file, by rank 0, or a warning that says why not: the run goes on. Once; no step, no file.
  /// Collective.
  void write(Log& log);

 private:
  io::Path file_;
  std::int64_t steps_, done_ = 0, step_ = 0;
  double step_began_ = 0;
  bool written_ = false;
  SpanLog& spans_;
  comm::Communicator& ranks_;
};

}  // namespace lockstep::train
