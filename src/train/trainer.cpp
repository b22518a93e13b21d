#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/shell.h"
#include "base/timer.h"
#include "checkpoint/find.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "train/divergence.h"

namespace lockstep::train {
namespace {

constexpr double most_held_up = 0.02;  // of the time, by saves that the clock asks for

/// Throws SystemError unless the run's folder is where the run began: it was renamed, moved or removed. `step`: the steps that
/// were done. `checkpoint`: the step of the last checkpoint; null: none was saved.
void demand_place(const io::HeldFolder& folder, std::int64_t step, std::optional<std::int64_t> checkpoint) {
  if (folder.in_place()) return;
  const std::optional<io::Path> now = folder.found();
  std::string text = fmt::format("{}: this folder was {} while the run wrote into it, so the run ends after step {}. ",
                                 folder.path().string(), now ? "renamed to " + now->string() : "removed", step);
  if (!checkpoint) throw SystemError(text + "It had saved no checkpoint");
  const io::Path name = io::Path(checkpoint::checkpoints_folder) / checkpoint::folder_name(*checkpoint);
  if (!now) throw SystemError(text + fmt::format("Its last checkpoint, {}, was in it", (folder.path() / name).string()));
  throw SystemError(text + fmt::format("Its last checkpoint is {}\n  -> go on with: {}", (*now / name).string(),
                                       own_command({"train", "log.dir=" + now->string(), "train.init_from=resume"})));
}

}  // namespace

Trainer::Trainer(TrainerOptions options, TrainerParts parts)
    : options_(std::move(options)), parts_(parts), mfu_(parts.engine.config(), options_.peak_flops) {
  if (!options_.hosts.empty()) late_ = LateWatch::of(parts.engine.config(), parts.engine.groups());
  if (options_.watches) switches_.emplace(options_.switches, options_.started);
  if (parts_.tokenizer != nullptr && options_.sample.tokens > 0) read_prompt();
}

// Encodes the prompt once, so that its faults are told once.
void Trainer::read_prompt() {
  const std::int64_t vocabulary = parts_.engine.config().model.vocabulary;
  options_.sample.never = data::missing_ids(*parts_.tokenizer, vocabulary);
  prompt_ = data::encode_prompt(*parts_.tokenizer, options_.prompt, vocabulary, parts_.log);
}

void Trainer::run(RunState state, RunListeners listeners) {
  state_ = state;
  listeners_ = std::move(listeners);
  try {
    run_to_end();
  } catch (const std::exception&) {
    if (options_.held != nullptr) demand_place(*options_.held, state_.step, durable_);  // whatever failed for that reason
    throw;
  }
}

void Trainer::run_to_end() {
  first_step_ = logged_ = state_.step;
  if (state_.step > 0) durable_ = saved_ = state_.step;  // what was resumed from is there already
  if (options_.eval_only) state_.validation_loss.reset();
  if (options_.copies && !options_.eval_only) copies_ = std::make_unique<Copies>(*options_.copies, parts_.engine, parts_.team);
  if (state_.step > 0 && state_.validation_loss) evaluated_ = state_.step;  // recorded by what is resumed
  tell(&RunListener::started, state_);
  StopCause cause = StopCause::none;
  if (options_.eval_only) {
    if (!evaluate(now_seconds())) stop(any_stop_cause());
  } else {
    parts_.loader.start(static_cast<std::uint64_t>(state_.step), static_cast<std::uint64_t>(state_.next_sample));
    last_end_ = saved_at_ = now_seconds();
    cause = take_steps();
    if (cause != StopCause::none) stop(cause);
    // A stop before the first step leaves the folder to the same command.
    if (!end_.diverged && (!end_.stopped || state_.step > 0)) save();
    if (!end_.diverged && !end_.stopped && saved_ != state_.step) end_diverged("its last losses or gradients are not finite");
    finish_save();
    if (copies_) copies_->remove();
  }
  end_.steps = state_.step;
  tell(&RunListener::finished, end_);
  if (cause != StopCause::kill_file || !switches_) return;
  if (const std::string left = switches_->take_kill_request(); !left.empty()) parts_.log.warning(left);
}

// The book counts iterations from 0 and evaluates behind those that the interval divides; a run that goes on does not say a
// line twice.
bool Trainer::evaluation_due() const {
  if (options_.style != LogStyle::rasbt) return due(options_.eval_interval) || state_.step >= options_.max_iters;
  return state_.step > first_step_ && (state_.step - 1) % options_.eval_interval == 0;
}

bool Trainer::sample_due() const {
  if (options_.sample_epochs == 0) return evaluation_due();
  if (state_.step == first_step_ || options_.epoch_samples == 0) return false;
  const std::int64_t done = state_.next_sample / options_.epoch_samples;
  const bool ended = done > (state_.next_sample - parts_.engine.global_batch()) / options_.epoch_samples;
  return ended && (done - 1) % options_.sample_epochs == 0;
}

StopCause Trainer::take_steps() {
  while (true) {
    const bool evaluates = evaluation_due() && evaluated_ != state_.step, samples = sample_due();
    if (evaluates || samples) evaluate_and_sample(evaluates, samples);
    Save wanted = Save::none;
    const StopCause cause = agree(wanted);
    if (state_.step > 0 && due(options_.checkpoint_interval)) wanted = Save::checkpoint;
    if (cause == StopCause::none || state_.step == 0) save(wanted);  // else the run's end saves
    if (cause == StopCause::diverged) end_diverged(fmt::format("{} steps in a row were left out", options_.max_skipped));
    const bool ended = end_.diverged || state_.step >= options_.max_iters;
    if (ended || cause != StopCause::none) {
      if (cause != StopCause::folder_gone) log_step();
      return ended ? StopCause::none : cause;
    }
    one_step();
  }
}

void Trainer::stop(StopCause cause) {
  end_.stopped = describe(cause, options_.switches);
  end_.cause = cause;
  if (cause != StopCause::folder_gone) return;
  if (copies_) copies_->remove();  // no start would find them
  save_elsewhere();
  throw SystemError(*end_.stopped);
}

void Trainer::save_elsewhere() {
  std::string now;
  if (lead()) now = options_.held->found().value_or("").string();
  now = comm::lead_text(parts_.engine.groups().all(), std::move(now));
  if (now.empty() || state_.step == 0 || durable_ == state_.step || !collect()) return;
  running_save_.reset();
  save_run(now, parts_.engine, state_, options_.run, parts_.team);
  durable_ = state_.step;
}

StopCause Trainer::agree(Save& save) {
  RunControl& control = parts_.engine.control();
  const StopCause cause = skipped_ >= options_.max_skipped ? StopCause::diverged : own_stop_cause();
  if (lead() && switches_ && switches_->take_save_request()) save_wanted_ = Save::checkpoint;
  if (lead() && save_due_by_clock()) save_wanted_ = std::max(save_wanted_, copies_ && durable_ ? Save::copy : Save::checkpoint);
  const bool planned = evaluation_due() || sample_due() || due(options_.checkpoint_interval) || state_.step >= options_.max_iters;
  const bool meets = control.is_sync_point(state_.step, cause != StopCause::none || save_wanted_ != Save::none);
  if (!meets && !planned) return StopCause::none;
  const bool busy = running_save_ && running_save_->busy();
  const bool copying = copies_ && copies_->busy();
  std::array<std::int64_t, 4> all{static_cast<std::int64_t>(cause), static_cast<std::int64_t>(save_wanted_), busy ? 1 : 0,
                                  copying ? 1 : 0};
  parts_.engine.groups().all().host().all_reduce(view(std::span<std::int64_t>(all), Shape{4}), comm::Reduction::max).wait();
  save_wanted_ = Save::none;
  if (all[0] == static_cast<std::int64_t>(StopCause::folder_gone)) return StopCause::folder_gone;  // nothing is written
  save = static_cast<Save>(all[1]);
  meet();
  advance_saves(all[2] != 0, all[3] != 0);
  return static_cast<StopCause>(all[0]);
}

void Trainer::advance_saves(bool busy, bool copying) {
  if (running_save_ && !busy) {
    if (const auto report = running_save_->advance()) tell_save(*report);
  }
  if (!copies_ || !copies_->active() || copying) return;
  const auto report = copies_->advance();
  if (!report) return;
  held_up_ = report->waited_seconds;
  tell(&RunListener::copied, *report, copies_->hosts(), state_.step);
}

bool Trainer::save_due_by_clock() const {
  if (!options_.checkpoint_seconds || running_save_ || saved_ == state_.step || (copies_ && copies_->active())) return false;
  return now_seconds() - saved_at_ >= std::max(*options_.checkpoint_seconds, held_up_ / most_held_up);
}

void Trainer::meet() {
  tell(&RunListener::met);
  if (!late_) return;
  for (const LateChange& who : late_->meet())
    tell(&RunListener::rank_changed, who, options_.hosts[static_cast<std::size_t>(who.rank)], state_.step);
}

StopCause Trainer::own_stop_cause() const {
  if (lead() && options_.held != nullptr && !options_.held->in_place()) return StopCause::folder_gone;
  const StopCause own = switches_ ? switches_->stop_cause() : StopCause::none;
  return std::max(own, static_cast<StopCause>(parts_.engine.control().remote_stop_cause()));
}

StopCause Trainer::any_stop_cause() const {
  auto cause = static_cast<std::int64_t>(own_stop_cause());
  parts_.engine.groups().all().host().all_reduce(view(std::span(&cause, 1), Shape{1}), comm::Reduction::max).wait();
  return static_cast<StopCause>(cause);
}

bool Trainer::sample_goes_on(bool ended, bool& whole) const {
  std::array<std::int64_t, 2> told{static_cast<std::int64_t>(own_stop_cause()), lead() && ended ? 1 : 0};
  parts_.engine.groups().all().host().all_reduce(view(std::span<std::int64_t>(told), Shape{2}), comm::Reduction::max).wait();
  whole = static_cast<StopCause>(told[0]) == StopCause::none;
  return whole && told[1] == 0;
}

void Trainer::evaluate_and_sample(bool evaluates, bool samples) {
  const double begun = now_seconds();
  const bool sample_first = options_.style != LogStyle::rasbt;
  parts_.engine.control().settle();
  if (samples && sample_first) write_sample();
  if (evaluates) evaluate(begun);
  if (samples && !sample_first) write_sample();
  tell(&RunListener::spent, "sample and evaluation", begun);
}

bool Trainer::evaluate(double begun) {
  const auto given_up = [this] { return any_stop_cause() != StopCause::none; };
  const std::optional<Evaluation> train = train::evaluate(parts_.engine, parts_.train_text, given_up);
  const std::optional<Evaluation> val = train ? train::evaluate(parts_.engine, parts_.val_text, given_up) : std::nullopt;
  if (!val) {
    parts_.log.info(fmt::format("The evaluation of step {} was given up: a stop was asked for", state_.step));
    return false;
  }
  losses_ = Losses{.step = state_.step, .train = train->loss, .validation = val->loss, .figures = val->figures};
  state_.validation_loss = val->loss;
  evaluated_ = state_.step;
  const std::vector<std::optional<double>> losses{state_.best_validation_loss, val->loss};
  if (const auto best = checkpoint::best_of(losses)) state_.best_validation_loss = losses[*best];
  if (lead() && (!options_.eval_only || state_.step == 0)) tell(&RunListener::kept, *losses_);
  tell(&RunListener::evaluated, *losses_, begun);
  return true;
}

void Trainer::write_sample() {
  std::optional<std::string> sample;
  if (!prompt_.empty()) {
    std::string text = data::decode_prompt(*parts_.tokenizer, prompt_);
    bool whole = true;
    parts_.sampler.run(prompt_, options_.sample, [&](std::int32_t token) {
      const bool ended = std::ranges::find(options_.sample_ends, token) != options_.sample_ends.end();
      if (!ended) text += parts_.tokenizer->bytes(token);
      return sample_goes_on(ended, whole);
    });
    if (lead() && whole) sample = std::move(text);
  }
  tell(&RunListener::sampled, sample);
}

bool Trainer::ready_to_save() {
  comm::together(parts_.engine.groups().all(), [&] {
    if (lead() && options_.held != nullptr) demand_place(*options_.held, state_.step, durable_);
    if (lead() && options_.before_save) options_.before_save();
  });
  return collect();
}

bool Trainer::collect() {
  parts_.engine.audit_state(state_.step);
  parts_.engine.state().collect();
  if (evaluated_ != state_.step) state_.validation_loss.reset();
  const bool finite = first_weight_not_finite(parts_.engine).empty();
  if (!finite) end_diverged("a weight has no finite value");
  if (!finite || sound()) return finite;
  parts_.log.warning(fmt::format("step {}: nothing is saved while the loss or the gradient is not finite", state_.step));
  saved_at_ = now_seconds();
  return false;
}

bool Trainer::sound() const {
  const auto on_all = [&](bool good) {
    std::int64_t bad = good ? 0 : 1;
    parts_.engine.groups().all().host().all_reduce(view(std::span(&bad, 1), Shape{1}), comm::Reduction::max).wait();
    return bad == 0;
  };
  if (!on_all(!losses_ || (std::isfinite(losses_->train) && std::isfinite(losses_->validation)))) return false;
  if (on_all(skipped_ == 0)) return true;
  if (state_.step < options_.max_iters && end_.cause == StopCause::none) return false;
  const double loss = parts_.engine.evaluate(parts_.val_text.read(0));
  return on_all(skipped_ <= 1 && std::isfinite(loss));
}

void Trainer::copy() {
  if (saved_ == state_.step) return;
  const double begun = now_seconds();
  if (!ready_to_save()) return;
  copies_->begin(state_, options_.run, options_.folder / checkpoint::checkpoints_folder / checkpoint::folder_name(*durable_));
  saved_at_ = now_seconds();
  tell(&RunListener::spent, "copy", begun);
}

void Trainer::save(Save wanted) {
  if (wanted == Save::copy) copy();
  if (wanted == Save::checkpoint) save();
}

void Trainer::save() {
  if (saved_ == state_.step) return;
  const double begun = now_seconds();
  finish_save();
  if (copies_) copies_->give_up();
  if (!ready_to_save()) return;
  saved_ = state_.step;
  if (options_.saves_beside) {
    running_save_ = std::make_unique<RunningSave>(options_.folder, parts_.engine, state_, options_.run, parts_.team);
  } else {
    tell_save(save_here());
  }
  saved_at_ = now_seconds();
  tell(&RunListener::spent, "checkpoint", begun);
}

checkpoint::SaveReport Trainer::save_here() {
  try {
    return save_run(options_.folder, parts_.engine, state_, options_.run, parts_.team);
  } catch (const std::exception&) {
    if (options_.held != nullptr && !options_.held->in_place()) save_elsewhere();  // it was renamed meanwhile
    throw;
  }
}

void Trainer::finish_save() {
  if (running_save_) tell_save(running_save_->finish());
}

void Trainer::tell_save(const checkpoint::SaveReport& report) {
  durable_ = running_save_ ? running_save_->step() : saved_;
  const std::optional<std::int64_t> beside = running_save_ ? std::optional(state_.step) : std::nullopt;
  held_up_ = running_save_ ? report.waited_seconds : report.durable_seconds;
  running_save_.reset();
  if (copies_) copies_->remove();  // they are older
  tell(&RunListener::saved, report, beside);
}

void Trainer::end_diverged(const std::string& what) {
  end_.diverged = divergence_of(parts_.engine, state_.step, what, options_.folder);
}

void Trainer::one_step() {
  tell(&RunListener::step_begins, state_.step);
  const comm::Communicator& ranks = parts_.engine.groups().all();
  const double asked = now_seconds(), stood_still = ranks.waited_seconds();
  const data::StepBatches batches = parts_.loader.next();
  tell(&RunListener::spent, "wait for batches", asked);
  const double rate = options_.schedule(state_.step);
  const StepResult result = parts_.engine.step(batches.microbatches, batches.target_count, state_.step, rate);
  if (late_) late_->add(now_seconds() - asked - (ranks.waited_seconds() - stood_still));
  tell(&RunListener::step_taken, state_.step, batches, result);
  if (!result.finite) {
    ++skipped_;
  } else if (result.targets > 0) {
    skipped_ = 0;
  }
  ++state_.step;
  state_.next_sample += parts_.engine.global_batch();
  const double end = now_seconds(), waited = parts_.loader.waited_seconds();
  last_ = measure(parts_.engine, result, end - std::exchange(last_end_, end));
  last_.step = state_.step;
  last_.learning_rate = rate;
  last_.data_wait = waited - std::exchange(waited_, waited);
  tell(&RunListener::step_done, last_);
  if (last_.noise && last_.finite) noise_ += *last_.noise;
  if (due(options_.log_interval) || state_.step >= options_.max_iters) log_step();
}

void Trainer::log_step() {
  if (std::exchange(logged_, state_.step) == state_.step) return;
  Metrics& metrics = last_;
  if (metrics.noise) metrics.noise = std::exchange(noise_, {});
  if (losses_) {
    metrics.train_loss = losses_->train;
    metrics.val_loss = losses_->validation;
  }
  mfu_.put(metrics);
  if (late_) metrics.late = late_->worst();
  // Ranks that do not wait for each other do not meet for a log line.
  if (!metrics.staleness) metrics.ranks = gather_times(metrics, parts_.engine.groups().all());
  if (metrics.staleness) metrics.figures.reset();
  if (metrics.figures) gather(*metrics.figures, static_cast<double>(metrics.targets), parts_.engine.groups());
  if (lead()) tell(&RunListener::logged, metrics);
}

}  // namespace lockstep::train
