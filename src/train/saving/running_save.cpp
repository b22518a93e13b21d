#include "train/saving/running_save.h"

#include "base/timer.h"
#include "checkpoint/find.h"
#include "checkpoint/retention.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "train/saving/named_state.h"

namespace lockstep::train {
namespace {

bool stays(Engine& engine, const parallel::TrainingState::Use& use) {
  return !engine.pieces().apart() && engine.state().stays(use);
}

}  // namespace

RunningSave::RunningSave(const io::Path& run, Engine& engine, const RunState& state, const Json& extra, Team& team,
                         comm::Communicator* host)
    : engine_(engine),
      team_(team),
      step_(state.step),
      run_(run),
      copy_(host != nullptr),
      suffixes_(slot_suffixes(engine.state())),
      manifest_(manifest_of(engine, state, extra)),
      weights_stay_(stays(engine, {})),
      slots_stay_(stays(engine, {.weights = false, .slots = true})),
      taken_(engine.state().units().size(), 0),
      writer_(copy_ ? *host : engine.groups().all(), run, state.step, file_tables(engine), !copy_),
      background_(writer_, engine.copies()) {
  lend_what_stays();
  background_.start();
  if (left_ == 0) background_.close();
  engine_.state().watch(this);
  waited_ = writer_.report(manifest_).durable_seconds;
}

RunningSave::~RunningSave() { engine_.state().watch(nullptr); }

void RunningSave::lend_what_stays() {
  parallel::TrainingState& state = engine_.state();
  const parallel::TrainingState::Use staying{.weights = weights_stay_, .slots = slots_stay_};
  state.for_each(staying, [&](const parallel::StateRange& range) {
    hold_own(engine_.pieces(), state, range, suffixes_, staying,
             [&](const std::vector<checkpoint::HeldTensor>& held) { background_.lend(range.unit.value, held); });
    if (!weights_stay_ || !slots_stay_) left_ += range.range.count;
  });
}

void RunningSave::before_change(const parallel::StateRange& range) {
  const ScopedTime waiting(waited_);
  hand_over(range);
}

void RunningSave::hand_over(const parallel::StateRange& range) {
  background_.settle(range.unit.value, team_);
  std::int64_t& taken = taken_[static_cast<std::size_t>(range.unit.value)];
  if (left_ == 0 || range.range.end() <= taken) return;
  ensure(range.slots.size() == suffixes_.size(), "what is saved changes as a whole");
  hold_own(engine_.pieces(), engine_.state(), range, suffixes_, {.weights = !weights_stay_, .slots = !slots_stay_},
           [&](const std::vector<checkpoint::HeldTensor>& held) { background_.take(held, team_); });
  taken = range.range.end();
  left_ -= range.range.count;
  if (left_ == 0) background_.close();
}

bool RunningSave::busy() const {
  if (!written_) return !background_.done();
  return naming_ && !naming_->done();
}

void RunningSave::wait_for_own() const {
  if (!written_) return background_.wait();
  if (naming_) naming_->wait();
}

std::optional<checkpoint::SaveReport> RunningSave::advance() {
  const ScopedTime waiting(waited_);
  comm::Communicator& ranks = engine_.groups().all();
  if (!written_) {
    comm::together(ranks, [&] { background_.rethrow(); });
    manifest_ = writer_.completed(std::move(manifest_), ranks);
    // Rank 0 alone knows what goes on with the run.
    if (copy_)
      manifest_ = checkpoint::parse_manifest(comm::lead_text(ranks, checkpoint::manifest_text(manifest_)), run_.string());
    written_ = true;
    if (!writer_.publishes()) return std::nullopt;
    naming_.emplace("save", [this](const std::stop_token& /*stop*/) {
      writer_.publish(manifest_);
      named_at_ = writer_.report(manifest_).durable_seconds;
      if (!copy_) checkpoint::apply_retention(run_ / checkpoint::checkpoints_folder);
    });
    return std::nullopt;
  }
  comm::together(ranks, [&] {
    if (naming_) naming_->rethrow();
  });
  checkpoint::SaveReport report = writer_.report(manifest_);
  if (naming_) report.durable_seconds = named_at_;
  report.waited_seconds = waited_;
  return report;
}

std::vector<checkpoint::CopiedPart> RunningSave::parts() const {
  std::vector<checkpoint::CopiedPart> all;
  background_.for_each_written([&](const checkpoint::Writer::Part& part, std::uint64_t checksum) {
    const Tensor& values = part.range.values;
    const bool rows = part.range.stride != 0;
    all.push_back({writer_.name_of(part.place), part.range.first, rows ? values.rows() : 1,
                   rows ? values.columns() : values.elements(), part.range.stride, checksum});
  });
  return all;
}

checkpoint::SaveReport RunningSave::finish() {
  const double start = now_seconds(), waited = waited_;
  if (left_ > 0) {
    engine_.state().for_each({.slots = true}, [&](const parallel::StateRange& range) { hand_over(range); });
  }
  while (true) {
    wait_for_own();
    std::optional<checkpoint::SaveReport> report = advance();
    if (!report) continue;
    report->waited_seconds = waited + now_seconds() - start;
    return std::move(*report);
  }
}

}  // namespace lockstep::train
