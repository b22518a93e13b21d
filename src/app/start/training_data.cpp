#include "app/start/training_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "base/number_text.h"
#include "comm/mpi/library.h"
#include "data/scattered_loader.h"
#include "data/shards.h"

namespace lockstep::app {
namespace {

using WindowNumbers = std::shared_ptr<std::vector<double>>;

/// Samples that stay together.
std::int64_t samples_together(const RunConfig& config) {
  const auto loss = train::make_sample_loss({.kind = config.train.objective});
  return loss ? loss->together() : 1;
}

/// Room for a number of each window.
WindowNumbers window_numbers(const RunConfig& config, const data::TokenFile& file) {
  if (samples_together(config) == 1) return nullptr;
  return std::make_shared<std::vector<double>>(static_cast<std::size_t>((file.tokens() - 1) / config.model.block_size));
}

data::Sampler training_sampler(const RunConfig& config, const data::TokenFile& file, const WindowNumbers& references,
                               const comm::Communicator& group) {
  const int ranks = group.size();
  data::SamplerOptions options;
  options.order = order_of(config);
  options.seed = seed_of(config);
  options.name = data::training_sequence(options.order);
  options.tokens = file.tokens();
  options.positions = config.model.block_size;
  options.pad_epochs = config.data.epoch_end == EpochEnd::pad;
  options.global_batch = config.model.batch_size * config.optimizer.gas * ranks;
  if (config.data.shards == DataShards::precut) {
    options.shard = group.rank();
    options.shards = ranks;
    options.name += data::shard_name(options.shard, options.shards);
  }
  options.together = samples_together(config);
  options.references = references;
  return data::Sampler(options);
}

/// Whether batches are read by MPI-IO: where there is no MPI job, each rank reads for itself.
bool reads_by_mpi(const RunConfig& config, const Session& session) {
  return config.data.io == DataIo::mpi && session.transport() == Transport::mpi;
}

/// One thread of a process calls MPI.
int reader_threads(const RunConfig& config, const Session& session) {
  return reads_by_mpi(config, session) ? 0 : static_cast<int>(config.data.workers);
}

/// The corpus's file by MPI-IO, where this rank's batches are read so.
std::optional<data::TokenFile> own_text(const RunConfig& config, const data::TokenFile& whole, const Session& session, Log& log) {
  if (reads_by_mpi(config, session)) {
    log.info(fmt::format("Reading {} by MPI-IO", whole.path()));
    data::TokenFile file(whole.path(), whole.format(), comm::open_mpi_file(whole.path()));
    if (whole.masked()) file.set_mask(whole.mask_path(), comm::open_mpi_file(whole.mask_path()));
    return file;
  }
  if (config.data.io == DataIo::mpi)
    log.warning("data.io = mpi: this is no MPI job, so each rank reads for itself, as with files");
  return std::nullopt;
}

/// The ranks that share a reader; null when each reads for itself.
std::unique_ptr<comm::Communicator> reading_group(const RunConfig& config, comm::Communicator& group) {
  if (config.data.io != DataIo::readers) return nullptr;
  if (group.size() % config.data.readers != 0) {
    throw UserError(fmt::format("data.readers = {}: {} ranks do not divide by it", config.data.readers, group.size()),
                    "choose a number of readers that divides the ranks");
  }
  const int each = group.size() / static_cast<int>(config.data.readers);
  return group.split(group.rank() / each, group.rank());
}

/// `sharers` read together; null: this rank for itself.
std::unique_ptr<data::WindowSource> evaluation_windows(const RunConfig& config, const train::EngineConfig& settings,
                                                       const data::TokenFile& file, const std::string& split, bool packed,
                                                       const WindowNumbers& references, comm::Communicator* sharers) {
  const data::EvaluationWindows windows{.packed = packed, .together = samples_together(config), .references = references};
  const data::Sampler sampler = data::evaluation_sampler(file, settings.positions, settings.seed, split, windows);
  const std::int64_t samples = settings.samples, limit = config.train.eval_iters * samples;
  if (sharers == nullptr) return std::make_unique<data::WindowReader>(file, sampler, samples, settings.positions, limit);
  return std::make_unique<data::ScatteredWindows>(file, sampler, samples, settings.positions, limit, *sharers);
}

}  // namespace

std::int64_t steps_of(const RunConfig& config, std::int64_t per_epoch) {
  const std::optional<std::int64_t>& epochs = config.train.max_epochs;
  if (!epochs) return config.train.max_iters;
  if (const auto all = product_of({*epochs, per_epoch})) return *all;
  throw UserError(fmt::format("train.max_epochs = {}: so many epochs of {} steps cannot be counted", *epochs, per_epoch),
                  "fewer epochs; train.max_minutes ends a run by the clock");
}

TrainingData::TrainingData(const RunConfig& config, const train::EngineConfig& settings, const data::Corpus& corpus,
                           const Session& session, comm::Communicator& group, Log& log)
    : own_(own_text(config, corpus.train, session, log)),
      text_(own_ ? *own_ : corpus.train),
      references_{window_numbers(config, corpus.train), window_numbers(config, corpus.val)},
      sampler_(training_sampler(config, text_, references_.train, group)),
      sharers_(reading_group(config, group)),
      train_windows_(evaluation_windows(config, settings, corpus.train, "train", corpus.packing.has_value(), references_.train,
                                        sharers_.get())),
      val_windows_(
          evaluation_windows(config, settings, corpus.val, "val", corpus.packing.has_value(), references_.val, sharers_.get())) {
  const data::LoaderShape shape{.samples = settings.samples,
                                .positions = settings.positions,
                                .microbatches = settings.plan.microbatches,
                                .rank = group.rank(),
                                .ranks = group.size()};
  const int workers = reader_threads(config, session);
  if (sharers_)
    batches_ = std::make_unique<data::ScatteredLoader>(text_, sampler_, shape, *sharers_, workers);
  else
    batches_ = std::make_unique<data::Loader>(text_, sampler_, shape, workers);
}

void TrainingData::declare(Arena& arena) {
  batches_->declare(arena);
  train_windows_->declare(arena);
  val_windows_->declare(arena);
}

std::int64_t TrainingData::bytes(const RunConfig& config, const train::EngineConfig& settings, const Session& session,
                                 const comm::Communicator& group) {
  const std::int64_t gas = settings.plan.microbatches;
  const auto ids = [&](std::int64_t samples) {  // tokens and targets
    const std::int64_t references = samples_together(config) > 1 ? round_up(samples * 8, Arena::alignment) : 0;
    return 2 * round_up(multiply(samples, settings.positions * 4), Arena::alignment) + references;
  };
  const std::int64_t batch = ids(settings.samples), windows = 2 * batch;
  const std::int64_t steps = reader_threads(config, session) + 1;
  if (config.data.io != DataIo::readers) return windows + steps * gas * batch;
  const std::int64_t sharers = group.size() / std::max<std::int64_t>(1, config.data.readers);
  const std::int64_t mine = ids(gas * settings.samples);
  if (group.rank() % sharers != 0) return windows + 2 * mine;
  const std::int64_t read_windows = 2 * (batch + ids(settings.samples * sharers));
  return windows + read_windows + 2 * mine + steps * gas * sharers * batch + ids(gas * settings.samples * sharers);
}

}  // namespace lockstep::app
