#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "arch/flops.h"
#include "base/timer.h"
#include "base/units.h"
#include "checkpoint/find.h"
#include "comm/agreement.h"
#include "train/divergence.h"
#include "train/report/rank_times.h"

namespace lockstep::train {
namespace {

// Ranks that work on one sample together.
double ranks_of_a_model(const layout::ParallelPlan& plan) { return static_cast<double>(plan.ranks()) / plan.dp; }

// Of this rank.
double flops_per_iteration(const EngineConfig& config) {
  return arch::training_flops_per_token(config.model, config.positions) *
         static_cast<double>(config.positions * config.samples * config.plan.microbatches) / ranks_of_a_model(config.plan);
}

}  // namespace

Trainer::Trainer(TrainerOptions options, TrainerParts parts)
    : options_(std::move(options)),
      parts_(parts),
      mfu_(flops_per_iteration(parts.engine.config()), options_.peak_flops),
      token_rates_(parts.engine.groups().all().size() > 1) {
  if (options_.watches) switches_.emplace(options_.switches, options_.started);
  if (lead()) metrics_.emplace(options_.folder / "metrics.jsonl");
  if (parts_.tokenizer != nullptr && options_.sample.tokens > 0) read_prompt();
}

// Once, so that what is wrong with it is told once.
void Trainer::read_prompt() {
  const std::int64_t vocabulary = parts_.engine.config().model.vocabulary;
  options_.sample.never = data::missing_ids(*parts_.tokenizer, vocabulary);
  prompt_ = data::encode_prompt(*parts_.tokenizer, options_.prompt, vocabulary, parts_.log);
}

TrainingHistory Trainer::run(RunState state) {
  try {
    return run_to_end(state);
  } catch (const std::exception&) {
    if (options_.held != nullptr) demand_place(*options_.held, state_.step, durable_);  // whatever failed for that reason
    throw;
  }
}

TrainingHistory Trainer::run_to_end(const RunState& state) {
  begin(state);
  if (options_.eval_only) {
    if (evaluate()) {
      log_evaluation({});
    } else {
      stop(any_stop_cause());
    }
    return std::move(history_);
  }
  if (options_.live && lead()) {
    bar_ = std::make_unique<ProgressBar>(stdout, "training", static_cast<double>(options_.max_iters));
    parts_.log.set_guard(bar_.get());
  }
  parts_.loader.start(static_cast<std::uint64_t>(state_.step), static_cast<std::uint64_t>(state_.next_sample));
  last_end_ = now_seconds();
  token_rates_.start(last_end_);
  finish(take_steps());
  return std::move(history_);
}

void Trainer::begin(const RunState& state) {
  state_ = state;
  first_step_ = history_.steps = state.step;
  saved_ = state.step;  // what was resumed from is there already
  if (state.step == 0) saved_ = -1;
  if (state.step > 0) durable_ = state.step;
  if (state.step > 0 && state.validation_loss && !options_.eval_only) {  // recorded by what is resumed
    evaluated_ = state.step;
    add_validation(*state.validation_loss);
  }
  if (lead() && options_.tensorboard) events_.emplace(options_.folder / "tensorboard", state.step == 0 ? 0 : state.step + 1);
  const double startup = now_seconds() - options_.started;
  if (lead() && options_.wandb) wandb_.emplace(options_.folder, state.step, startup);
  parts_.log.info(fmt::format("Startup time: {:.4f}", startup));
  if (!options_.live && options_.style == LogStyle::wordplay) parts_.log.info("\n" + legend());
  const std::int64_t batches = parts_.train_text.batches() + parts_.val_text.batches();
  const std::string note = note_of_long_evaluation(parts_.engine, batches, options_.peak_flops);
  if (!note.empty()) parts_.log.info(note);
}

// The book counts iterations from 0 and evaluates behind those that the interval divides; a run that goes on does not say a
// line twice.
bool Trainer::evaluation_due() const {
  if (options_.style == LogStyle::wordplay) return due(options_.eval_interval) || state_.step >= options_.max_iters;
  return state_.step > first_step_ && (state_.step - 1) % options_.eval_interval == 0;
}

bool Trainer::sample_due() const {
  if (options_.sample_epochs == 0) return evaluation_due();
  if (state_.step == first_step_ || !due(options_.steps_per_epoch)) return false;
  return (state_.step / options_.steps_per_epoch - 1) % options_.sample_epochs == 0;
}

StopCause Trainer::take_steps() {
  while (true) {
    const bool evaluates = evaluation_due() && evaluated_ != state_.step, samples = sample_due();
    if (evaluates || samples) evaluate_and_sample(evaluates, samples);
    if (state_.step > 0 && due(options_.checkpoint_interval)) save();
    bool save_now = false;
    const StopCause cause = agree(save_now);
    if (save_now) save();
    if (cause == StopCause::diverged) end_diverged(fmt::format("{} steps in a row were left out", options_.max_skipped));
    if (history_.diverged || state_.step >= options_.max_iters) return StopCause::none;
    if (cause != StopCause::none) return cause;
    one_step();
  }
}

void Trainer::stop(StopCause cause) {
  history_.stopped = describe(cause, options_.switches);
  if (cause == StopCause::folder_gone) throw SystemError(*history_.stopped);
}

void Trainer::finish(StopCause cause) {
  if (cause != StopCause::none) stop(cause);
  // A stop before the first step leaves the folder to the same command.
  if (!history_.diverged && (!history_.stopped || state_.step > 0)) save();
  finish_save();
  if (parts_.trace != nullptr) parts_.trace->write(parts_.log);
  if (cause == StopCause::kill_file && switches_) {
    const std::string left = switches_->take_kill_request();
    if (!left.empty()) parts_.log.warning(left);
  }
  parts_.log.set_guard(nullptr);
  if (bar_) bar_->finish();
  history_.steps = state_.step;
  if (!rates_.empty()) {
    const auto middle = rates_.begin() + static_cast<std::ptrdiff_t>(rates_.size() / 2);
    std::nth_element(rates_.begin(), middle, rates_.end());
    history_.tokens_per_second = *middle;
  }
}

StopCause Trainer::agree(bool& save) {
  RunControl& control = parts_.engine.control();
  const StopCause cause = skipped_ >= options_.max_skipped ? StopCause::diverged : own_stop_cause();
  if (lead() && switches_ && switches_->take_save_request()) save_wanted_ = true;
  const bool planned = evaluation_due() || sample_due() || due(options_.checkpoint_interval) || state_.step >= options_.max_iters;
  const bool meets = control.is_sync_point(state_.step, cause != StopCause::none || save_wanted_);
  if (!meets && !planned) return StopCause::none;
  const bool busy = running_save_ && running_save_->busy();
  std::array<std::int64_t, 3> all{static_cast<std::int64_t>(cause), save_wanted_ ? 1 : 0, busy ? 1 : 0};
  parts_.engine.groups().all().host().all_reduce(view(std::span<std::int64_t>(all), Shape{3}), comm::Reduction::max).wait();
  save_wanted_ = false;
  if (all[0] == static_cast<std::int64_t>(StopCause::folder_gone)) return StopCause::folder_gone;  // nothing is written
  save = all[1] != 0;
  if (parts_.trace != nullptr && parts_.trace->complete()) parts_.trace->write(parts_.log);
  if (running_save_ && all[2] == 0) {
    if (const auto report = running_save_->advance()) log_save(*report);
  }
  return static_cast<StopCause>(all[0]);
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
  const TokenRates::Rates rates = evaluates ? token_rates_.mark(begun) : TokenRates::Rates{};
  const bool sample_first = options_.style == LogStyle::wordplay;
  parts_.engine.control().settle();
  if (samples && sample_first) write_sample();
  if (evaluates && evaluate()) log_evaluation(rates);
  if (samples && !sample_first) {
    write_sample();
    parts_.log.plain(memory_lines(options_.memory));
  }
  if (parts_.trace != nullptr) parts_.trace->tell("sample and evaluation", begun);
}

bool Trainer::evaluate() {
  const auto given_up = [this] { return any_stop_cause() != StopCause::none; };
  const std::optional<Evaluation> train = train::evaluate(parts_.engine, parts_.train_text, given_up);
  const std::optional<Evaluation> val = train ? train::evaluate(parts_.engine, parts_.val_text, given_up) : std::nullopt;
  if (!val) {
    parts_.log.info(fmt::format("The evaluation of step {} was given up: a stop was asked for", state_.step));
    return false;
  }
  train_loss_ = train->loss;
  state_.validation_loss = val_loss_ = val->loss;
  evaluated_ = state_.step;
  const std::vector<std::optional<double>> losses{state_.best_validation_loss, val_loss_};
  if (const auto best = checkpoint::best_of(losses)) state_.best_validation_loss = losses[*best];
  add_validation(*val_loss_);
  if (lead() && (!options_.eval_only || state_.step == 0)) record({state_.step, *train_loss_, *val_loss_});
  return true;
}

void Trainer::add_validation(double loss) {
  history_.validation.x.push_back(static_cast<double>(state_.step));
  history_.validation.y.push_back(loss);
}

void Trainer::record(const Losses& losses) {
  if (events_) {
    const std::array<Scalar, 2> scalars{{{"loss/train_evaluated", losses.train}, {"loss/val", losses.validation}}};
    events_->add(losses.step, scalars);
  }
  if (wandb_) wandb_->add(losses);
  write_json(to_json(losses));
}

void Trainer::log_evaluation(const TokenRates::Rates& rates) {
  if (options_.style == LogStyle::wordplay || options_.eval_only) {
    parts_.log.info(fmt::format("step {}: train loss {:.4f}, val loss {:.4f}", state_.step, *train_loss_, *val_loss_));
    return;
  }
  parts_.log.plain(progress_line({.epoch = (state_.step - 1) / options_.steps_per_epoch + 1,
                                  .step = state_.step - 1,
                                  .train_loss = *train_loss_,
                                  .val_loss = *val_loss_,
                                  .rates = rates,
                                  .several_ranks = parts_.engine.groups().all().size() > 1}));
}

void Trainer::write_sample() {
  if (prompt_.empty()) return;
  std::string text = parts_.tokenizer->decode(prompt_);
  bool whole = true;
  parts_.sampler.run(prompt_, options_.sample, [&](std::int32_t token) {
    const bool ended = std::ranges::find(options_.sample_ends, token) != options_.sample_ends.end();
    if (!ended) text += parts_.tokenizer->bytes(token);
    return sample_goes_on(ended, whole);
  });
  if (!lead() || !whole) return;
  if (options_.style == LogStyle::rasbt) {
    std::string line = text;
    std::replace(line.begin(), line.end(), '\n', ' ');
    parts_.log.plain(line);
  } else if (!options_.live) {
    parts_.log.info(fmt::format("['prompt']: '{}'", options_.prompt));
    parts_.log.info(fmt::format("['response']:\n\n{}", text));
  }
  history_.sample = std::move(text);
}

void Trainer::save() {
  if (saved_ == state_.step) return;
  const double begun = now_seconds();
  finish_save();
  comm::together(parts_.engine.groups().all(), [&] {
    if (lead() && options_.held != nullptr) demand_place(*options_.held, state_.step, durable_);
    if (lead() && options_.before_save) options_.before_save();
  });
  parts_.engine.state().collect();
  if (!first_weight_not_finite(parts_.engine).empty()) return end_diverged("a weight has no finite value");
  saved_ = state_.step;
  if (evaluated_ != state_.step) state_.validation_loss.reset();
  if (options_.saves_beside) {
    running_save_ = std::make_unique<RunningSave>(options_.folder, parts_.engine, state_, options_.run, parts_.team);
  } else {
    log_save(save_run(options_.folder, parts_.engine, state_, options_.run, parts_.team));
  }
  if (parts_.trace != nullptr) parts_.trace->tell("checkpoint", begun);
}

void Trainer::finish_save() {
  if (running_save_) log_save(running_save_->finish());
}

void Trainer::log_save(const checkpoint::SaveReport& report) {
  history_.checkpoint = report.folder;
  durable_ = running_save_ ? running_save_->step() : saved_;
  std::string beside;
  if (running_save_) {
    beside = fmt::format("; durable at step {}, training waited {}", state_.step, format_seconds(report.waited_seconds));
    running_save_.reset();
  }
  if (!options_.live) {
    parts_.log.info(fmt::format("Saved checkpoint to: {} ({}, {}{})", report.folder.string(), format_bytes(report.bytes),
                                format_seconds(report.durable_seconds), beside));
  }
}

void Trainer::end_diverged(const std::string& what) { history_.diverged = divergence_of(parts_.engine, state_.step, what); }

data::StepBatches Trainer::next_batches() {
  const ScopedSpan span(parts_.trace != nullptr ? &parts_.trace->spans() : nullptr, SpanKind::phase, "wait for batches");
  return parts_.loader.next();
}

void Trainer::one_step() {
  if (parts_.trace != nullptr) parts_.trace->begin_step(state_.step);
  const data::StepBatches batches = next_batches();
  const StepResult result =
      parts_.engine.step(batches.microbatches, batches.target_count, state_.step, options_.schedule(state_.step));
  if (parts_.trace != nullptr) parts_.trace->end_step();
  if (options_.dump_step && *options_.dump_step == state_.step) {
    const io::Path file = options_.folder / fmt::format("dump_step_{}.safetensors", state_.step);
    dump_step(file, parts_.engine, batches.microbatches, result.loss);
    parts_.log.info(fmt::format("Wrote step {} to {}", state_.step, file.string()));
  }
  if (!result.finite) {
    ++skipped_;
  } else if (result.targets > 0) {
    skipped_ = 0;
  }
  ++state_.step;
  state_.next_sample += parts_.engine.global_batch();
  const double end = now_seconds();
  const double dt = end - last_end_;
  last_end_ = end;
  const double waited = parts_.loader.waited_seconds();
  log_step(result, dt, waited - waited_);
  waited_ = waited;
}

void Trainer::log_step(const StepResult& result, double dt, double waited) {
  const EngineConfig& config = parts_.engine.config();
  const auto samples = static_cast<double>(parts_.engine.global_batch());
  const double ranks = parts_.engine.groups().all().size();
  const double tokens_per_second = samples * static_cast<double>(config.positions) / dt;
  rates_.push_back(tokens_per_second);
  token_rates_.add(samples * static_cast<double>(config.positions));
  if (!result.finite)
    parts_.log.warning(fmt::format("step {}: the gradient is not finite; the update was left out", state_.step));
  if (result.targets == 0)
    parts_.log.warning(fmt::format("step {}: the loss mask leaves no target; the update was left out", state_.step));
  history_.staleness = result.staleness;
  if (result.offload)
    history_.offload = {*result.offload, result.forward_seconds + result.backward_seconds + result.update_seconds};
  history_.train.x.push_back(static_cast<double>(state_.step));
  history_.train.y.push_back(result.loss);
  if (bar_)
    bar_->update(static_cast<double>(state_.step),
                 fmt::format("loss {:.4f}  {} tokens/s", result.loss, format_si(tokens_per_second)));
  if (!due(options_.log_interval)) return;
  Metrics m;
  m.step = state_.step;
  m.loss = result.loss;
  m.dt = dt;
  m.dtf = result.forward_seconds / config.plan.microbatches;
  m.dtb = (result.backward_seconds + result.update_seconds) / config.plan.microbatches;
  m.sps = samples / dt;
  m.sps_per_gpu = m.sps / ranks;
  m.tps = tokens_per_second;
  m.tps_per_gpu = m.tps / ranks;
  m.mfu = mfu_.update(dt);
  m.train_loss = train_loss_;
  m.val_loss = val_loss_;
  m.learning_rate = options_.schedule(state_.step - 1);
  m.gradient_norm = result.gradient_norm;
  m.update_seconds = result.update_seconds;
  m.data_wait = waited;
  m.exposed_seconds = result.exposed_seconds;
  m.waited = result.waited;
  m.pipeline = result.pipeline;
  m.finite = result.finite;
  m.staleness = result.staleness;
  m.offload = result.offload;
  // Ranks that do not wait for each other do not meet for a log line.
  if (!result.staleness) m.ranks = gather_times(m, parts_.engine.groups().all());
  if (lead()) write_line(m);
}

void Trainer::write_line(const Metrics& m) {
  if (!options_.live && options_.style == LogStyle::wordplay) parts_.log.info(log_line(m));
  if (events_) events_->add(m.step, scalars_of(m));
  if (wandb_) wandb_->add(m, parts_.engine.config().plan.microbatches);
  write_json(to_json(m));
}

void Trainer::write_json(Json json) {
  json.set("run", options_.name);
  metrics_->append(json.dump() + "\n");
}

}  // namespace lockstep::train
