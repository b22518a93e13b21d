#include "train/saving/copies.h"

#include <utility>

#include "base/timer.h"
#include "checkpoint/copies/restore.h"
#include "checkpoint/find.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "io/new_folder.h"

namespace lockstep::train {

Copies::Copies(CopyPlace place, Engine& engine, Team& team)
    : place_(std::move(place)),
      engine_(engine),
      team_(team),
      neighbours_(checkpoint::neighbours_of(place_.hosts, engine.groups().all().rank())),
      ranks_(engine.groups().all().split(0, engine.groups().all().rank())),
      host_(engine.groups().all().split(neighbours_.host, engine.groups().all().rank())) {}

void Copies::begin(const RunState& state, const Json& extra, const io::Path& last) {
  std::string mark;
  comm::together(*ranks_, [&] {
    if (host_->rank() == 0) checkpoint::make_place(place_.folder);
    if (ranks_->rank() == 0) mark = checkpoint::mark_of(last);
  });
  piece_ = {.rank = ranks_->rank(), .ranks = ranks_->size(), .follows = comm::lead_text(*ranks_, mark), .parts = {}};
  step_ = state.step;
  started_ = now_seconds();
  save_ = std::make_unique<RunningSave>(place_.folder, engine_, state, extra, team_, host_.get());
}

void Copies::end_writing(checkpoint::SaveReport report) {
  report_ = std::move(report);
  const ScopedTime waiting(report_.waited_seconds);
  piece_.parts = save_->parts();
  save_.reset();
  comm::together(*ranks_, [&] { checkpoint::write_piece(report_.folder, piece_); });
  if (neighbours_.hosts == 1) return;
  exchange_ =
      std::make_unique<checkpoint::Exchange>(*ranks_, neighbours_, report_.folder, piece_, engine_.copies(), step_seconds_);
}

std::optional<checkpoint::SaveReport> Copies::advance() {
  const double now = now_seconds();
  step_seconds_ = now - std::exchange(advanced_, now);
  if (save_) {
    std::optional<checkpoint::SaveReport> report = save_->advance();
    if (!report) return std::nullopt;
    end_writing(std::move(*report));
  } else {
    const ScopedTime waiting(report_.waited_seconds);
    if (exchange_->advance()) exchange_.reset();
  }
  if (exchange_) return std::nullopt;
  ranks_->barrier();  // all pieces have their places now
  remove_older();
  report_.durable_seconds = now_seconds() - started_;
  return report_;
}

void Copies::remove_older() const {
  if (host_->rank() != 0) return;
  for (const checkpoint::Found& found : checkpoint::list_checkpoints(place_.folder)) {
    if (found.step != step_) io::remove_folder(found.folder);
  }
}

void Copies::give_up() {
  save_.reset();
  if (exchange_) exchange_->stop();
  exchange_.reset();
}

void Copies::remove() {
  give_up();
  comm::together(*ranks_, [&] {
    if (host_->rank() == 0) checkpoint::remove_copies(place_.folder);
  });
}

}  // namespace lockstep::train
