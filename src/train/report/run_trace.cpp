#include "train/report/run_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/units.h"
#include "comm/text.h"

namespace lockstep::train {
namespace {

constexpr int kCompute = 1;  // the row; the others follow

std::string_view category_of(const Span& span) {
  static constexpr std::array<std::string_view, static_cast<std::size_t>(SpanKind::count)> names{
      "step", "phase", "pass", "op", "waiting", "exchange", "disk"};
  return names[static_cast<std::size_t>(span.kind)];
}

std::string title_of(const Span& span) {
  switch (span.kind) {
    case SpanKind::step:
      return fmt::format("step {}", span.numbers[0]);
    case SpanKind::pass:
      return fmt::format("{} {} of chunk {}", span.name, span.numbers[0], span.numbers[1]);
    case SpanKind::op:
      return fmt::format("{} {}", span.of, span.name);
    case SpanKind::waiting:
      return fmt::format("waiting: {}", span.name);
    default:
      return std::string(span.name);
  }
}

Json::Object details_of(const Span& span) {
  const auto& [first, second, third] = span.numbers;
  if (span.kind == SpanKind::op && third > 0) return {{"m", first}, {"n", second}, {"k", third}};
  const bool moves = span.kind == SpanKind::waiting || span.kind == SpanKind::exchange || span.kind == SpanKind::disk;
  if (moves) return {{"bytes", first}};
  return {};
}

/// The spans of a kind, which may overlap, in as few rows as they need, from row `next` on. Returns the row behind them.
int add_apart(ChromeTrace& trace, std::vector<Span> spans, int rank, int next, std::string_view name, const TraceClock& clock) {
  std::ranges::sort(spans, {}, &Span::start);
  std::vector<double> ends;
  for (const Span& span : spans) {
    const auto free = std::ranges::find_if(ends, [&](double end) { return end <= span.start; });
    const auto lane = free - ends.begin();
    const ChromeTrace::Row row{rank, next + static_cast<int>(lane)};
    if (free == ends.end()) {
      trace.name_row(row, lane == 0 ? std::string(name) : fmt::format("{}, {} at a time", name, lane + 1));
      ends.push_back(0);
    }
    ends[static_cast<std::size_t>(lane)] = span.end;
    trace.span(row, category_of(span), title_of(span), clock(span.start), clock(span.end), details_of(span));
  }
  return next + static_cast<int>(ends.size());
}

Tensor view_of(double& number) { return view(std::span(&number, 1), Shape{1}); }

/// Viewers drop what starts before 0, and ranks' first steps start one after the other.
TraceClock clock_of(const SpanLog& log, comm::Communicator& ranks) {
  TraceClock clock{.shift = clock_shift(ranks)};
  double least = std::numeric_limits<double>::infinity();
  for (const Span& span : log.spans()) least = std::min(least, span.start + clock.shift);
  ranks.host().all_reduce(view_of(least), comm::Reduction::min).wait();
  if (std::isfinite(least)) clock.origin = least;
  return clock;
}

}  // namespace

void OpSpans::begin(const ops::OpCall& /*call*/) {
  if (log_.on()) start_ = now_seconds();
}

void OpSpans::end(const ops::OpCall& call) noexcept {
  if (!log_.on()) return;
  log_.add({SpanKind::op, call.name, start_, now_seconds(), {call.m, call.n, call.k}, call.family});
}

ChromeTrace trace_of_rank(const SpanLog& log, int rank, const TraceClock& clock) {
  ChromeTrace trace;
  trace.name_process(rank, fmt::format("rank {}", rank));
  trace.name_row({rank, kCompute}, "compute");
  std::vector<Span> exchanges, moves;
  for (const Span& span : log.spans()) {
    if (span.kind == SpanKind::exchange) {
      exchanges.push_back(span);
    } else if (span.kind == SpanKind::disk) {
      moves.push_back(span);
    } else {
      trace.span({rank, kCompute}, category_of(span), title_of(span), clock(span.start), clock(span.end), details_of(span));
    }
  }
  const int next = add_apart(trace, std::move(exchanges), rank, kCompute + 1, "communication", clock);
  add_apart(trace, std::move(moves), rank, next, "disk", clock);
  return trace;
}

// The other rank is taken to answer in the middle of the fastest message there and back (Cristian 1989).
double clock_shift(comm::Communicator& ranks) {
  constexpr int rounds = 8;
  comm::Communicator& host = ranks.host();
  double shift = 0;
  for (int rank = 1; rank < ranks.size(); ++rank) {
    if (ranks.rank() == 0) {
      double least = std::numeric_limits<double>::infinity(), best = 0;
      for (int round = 0; round < rounds; ++round) {
        double there = now_seconds();
        host.send(view_of(there), rank).wait();
        double answered = 0;
        host.receive(view_of(answered), rank).wait();
        const double took = now_seconds() - there;
        if (took < least) best = there + took / 2 - answered;
        least = std::min(least, took);
      }
      if (std::abs(best) <= least / 2) best = 0;
      host.send(view_of(best), rank).wait();
    } else if (ranks.rank() == rank) {
      for (int round = 0; round < rounds; ++round) {
        double asked = 0;
        host.receive(view_of(asked), 0).wait();
        double now = now_seconds();
        host.send(view_of(now), 0).wait();
      }
      host.receive(view_of(shift), 0).wait();
    }
  }
  return shift;
}

RunTrace::RunTrace(io::Path file, std::int64_t steps, SpanLog& spans, comm::Communicator& ranks, Log& log)
    : file_(std::move(file)), steps_(steps), spans_(spans), ranks_(ranks), log_(log) {
  ranks_.observe(&spans_);
}

RunTrace::~RunTrace() {
  ranks_.observe(nullptr);
  spans_.close();
}

void RunTrace::step_begins(std::int64_t step) {
  if (written_ || complete()) return;
  step_ = step;
  step_began_ = now_seconds();
  spans_.turn(true);
}

void RunTrace::step_taken(std::int64_t /*step*/, const data::StepBatches& /*batches*/, const StepResult& /*result*/) {
  if (!spans_.on()) return;
  spans_.add({SpanKind::step, "step", step_began_, now_seconds(), {step_}});
  spans_.turn(false);
  ++done_;
}

void RunTrace::spent(std::string_view what, double begun) {
  const bool in_step = spans_.on();
  if (!in_step && (written_ || done_ == 0 || complete())) return;
  spans_.turn(true);
  spans_.add({SpanKind::phase, what, begun, now_seconds()});
  spans_.turn(in_step);
}

void RunTrace::met() {
  if (complete()) write();
}

void RunTrace::write() {
  if (written_ || done_ == 0) return;
  written_ = true;
  ranks_.observe(nullptr);
  std::int64_t dropped = spans_.dropped();
  ranks_.host().all_reduce(view(std::span(&dropped, 1), Shape{1}), comm::Reduction::sum).wait();
  ChromeTrace trace = trace_of_rank(spans_, ranks_.rank(), clock_of(spans_, ranks_));
  spans_.close();
  if (ranks_.rank() != 0) return comm::send_text(ranks_, trace.events(), 0);
  for (int rank = 1; rank < ranks_.size(); ++rank) trace.add(comm::receive_text(ranks_, rank));
  const Json about =
      Json::Object{{"first_step", step_ - done_ + 1}, {"steps", done_}, {"ranks", ranks_.size()}, {"dropped", dropped}};
  try {
    io::replace_file(file_, trace.text(about));
  } catch (const std::runtime_error& error) {
    return log_.warning(fmt::format("there is no trace: {}", error.what()));
  }
  log_.info(fmt::format("Wrote a trace of {} step{} to {}", done_, done_ == 1 ? "" : "s", file_.string()));
  if (dropped > 0) {
    log_.warning(
        fmt::format("{} holds no more of the traced steps: {} spans behind that found no room; fewer of them with "
                    "log.trace_steps",
                    file_.string(), format_count(dropped)));
  }
}

}  // namespace lockstep::train
