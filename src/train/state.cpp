#include "train/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/checked.h"
#include "train/saving/named_state.h"

namespace lockstep::train {
namespace {

// Where not all of the engine's ranks read together, each reads all that it holds.
bool reads_all(const Engine& engine, const comm::Communicator& ranks) { return &ranks != &engine.groups().all(); }

void fill_weights(checkpoint::RangeReader& reader, Engine& engine, comm::Communicator& ranks, Team& team) {
  parallel::TrainingState& state = engine.state();
  const auto fill = [&](const std::vector<checkpoint::HeldTensor>& held) { reader.fill(held, team); };
  state.for_each({.changes = true}, [&](const parallel::StateRange& range) {
    const layout::Range part = reads_all(engine, ranks) ? range.range : range.own;
    hold(engine.pieces(), part_of(state, range, range.master, part), true, fill);
  });
  reader.finish(ranks);
}

void fill_slots(checkpoint::RangeReader& reader, Engine& engine, comm::Communicator& ranks, Team& team) {
  parallel::TrainingState& state = engine.state();
  const std::vector<std::string> suffixes = slot_suffixes(state);
  const auto fill = [&](const std::vector<checkpoint::HeldTensor>& held) { reader.fill(held, team); };
  state.for_each({.slots = true, .changes = true}, [&](const parallel::StateRange& range) {
    const layout::Range part = reads_all(engine, ranks) ? range.range : range.own_slots;
    for (std::size_t s = 0; s < range.slots.size(); ++s)
      hold(engine.pieces(), part_of(state, range, range.slots[s], part, suffixes[s]), true, fill);
  });
  reader.finish(ranks);
}

/// One kind of values of all parameters, whole, in host memory: each rank brings what it answers for.
class WholeTensors {
 public:
  explicit WholeTensors(const std::vector<checkpoint::LogicalTensor>& tensors) {
    for (const checkpoint::LogicalTensor& tensor : tensors) {
      Tensor whole;
      const auto bytes = static_cast<std::int64_t>(size_of(tensor.dtype)) * tensor.shape.elements();
      memory_.push_back(host_memory().allocate(static_cast<std::size_t>(round_up(bytes, 4))));  // zeros
      whole.data = memory_.back().data();
      whole.shape = tensor.shape;
      whole.dtype = tensor.dtype;
      places_.emplace(tensor.name, tensors_.size());
      tensors_.push_back({tensor.name, whole});
    }
  }
  /// `values` holds all of the range.
  void take(const parallel::TrainingState& state, const parallel::StateRange& range, const Tensor& values,
            const HostPieces& pieces) {
    hold(pieces, part_of(state, range, values, range.own), false, [&](const std::vector<checkpoint::HeldTensor>& held) {
      for (const checkpoint::HeldTensor& tensor : held) put(tensors_[places_.at(tensor.tensor.name)].tensor, tensor.ranges);
    });
  }
  /// Completes the tensors by sums over ranks: bits that a rank has not taken are zero. Collective.
  void complete(comm::Communicator& ranks) {
    for (const checkpoint::NamedTensor& named : tensors_) {
      Tensor bits = named.tensor;
      bits.shape = Shape{div_up(static_cast<std::int64_t>(bits.bytes()), 4)};
      bits.dtype = DType::i32;
      ranks.all_reduce(bits, comm::Reduction::sum).wait();
    }
  }
  /// All tensors in the order of the model's table.
  const checkpoint::NamedTensors& all() const { return tensors_; }
  /// The tensor of this name; null: there is none.
  const Tensor* find(const std::string& name) const {
    const auto place = places_.find(name);
    return place == places_.end() ? nullptr : &tensors_[place->second].tensor;
  }

 private:
  static void put(const Tensor& whole, const std::vector<checkpoint::HeldRange>& ranges) {
    for (const checkpoint::HeldRange& range : ranges) {
      if (!range.counts) continue;
      checkpoint::for_each_run(range, [&](std::int64_t first, const Tensor& values) {
        std::ranges::copy(elements<std::byte>(values), elements<std::byte>(whole.flat(first, values.elements())).begin());
      });
    }
  }
  std::vector<Memory> memory_;
  checkpoint::NamedTensors tensors_;
  std::unordered_map<std::string, std::size_t> places_;
};

/// All batches' rows of one kind, one after another, on rank 0 of those that read different samples: ranks have neighbouring
/// micro-batches. Collective.
std::vector<std::int32_t> joined(std::span<const data::Batch> batches, Tensor data::Batch::* member, comm::Communicator& ranks) {
  std::vector<std::int32_t> mine;
  for (const data::Batch& batch : batches) {
    const std::span<std::int32_t> part = elements<std::int32_t>(batch.*member);
    mine.insert(mine.end(), part.begin(), part.end());
  }
  std::vector<std::int32_t> all(mine.size() * static_cast<std::size_t>(ranks.size()));
  ranks.gather(view(std::span(all), Shape{std::ssize(all)}), view(std::span(mine), Shape{std::ssize(mine)}), 0).wait();
  return all;
}

void demand_same_optimizer(const checkpoint::Reader& reader, const EngineConfig& config) {
  const std::string trained_by = reader.manifest().optimizer.at("name").string(), ours = config.optimizer.name;
  if (trained_by == ours) return;
  throw UserError(
      fmt::format("{} was trained with optimizer.name = {}, this run has {}: what one keeps of each weight means nothing "
                  "to the other",
                  reader.folder().string(), trained_by, ours),
      fmt::format("resume with optimizer.name={}, or start a new run with train.init_from={}", trained_by,
                  reader.folder().string()));
}

// The moments of a run may become wider, not narrower: it would go on from others.
void demand_exact_moments(const checkpoint::Reader& reader, Engine& engine) {
  const parallel::TrainingState& state = engine.state();
  if (state.slot_type() == DType::f32) return;
  for (const checkpoint::LogicalTensor& slot : trained_tensors(engine.config(), DType::bf16, slot_suffixes(state))) {
    const checkpoint::StoredTensor* const stored = reader.find(slot.name);
    if (stored == nullptr || stored->tensor.dtype != DType::f32) continue;
    throw UserError(
        fmt::format("{} has moments in fp32: a run with optimizer.moments=bf16 would go on from other ones, rounded",
                    reader.folder().string()),
        fmt::format("resume with optimizer.moments=fp32, or start a new run with train.init_from={}", reader.folder().string()));
  }
}

}  // namespace

RunState state_of(const checkpoint::Manifest& manifest) {
  return {manifest.step, manifest.next_sample, manifest.validation_loss, manifest.best_validation_loss};
}

void load_weights(const checkpoint::WeightSource& source, Engine& engine, comm::Communicator& ranks, Team& team) {
  parallel::TrainingState& state = engine.state();
  fill_weights(*source.read_model(weight_tensors(engine.config())), engine, ranks, team);
  if (!reads_all(engine, ranks)) state.gather();
  engine.weights_changed();
}

void load_run(const checkpoint::Reader& reader, Engine& engine, comm::Communicator& ranks, Team& team) {
  if (reader.manifest().master_is_model && engine.config().weights.owned() != DType::f32) {
    throw UserError(fmt::format("{} has weights and moments in fp32: a run without master weights would go on from other ones, "
                                "rounded to bf16",
                                reader.folder().string()),
                    fmt::format("resume with optimizer.master_weights=true, or start a new run with train.init_from={}",
                                reader.folder().string()));
  }
  demand_same_optimizer(reader, engine.config());
  parallel::TrainingState& state = engine.state();
  demand_exact_moments(reader, engine);
  fill_weights(*reader.read_model(weight_tensors(engine.config())), engine, ranks, team);
  fill_slots(*reader.read(trained_tensors(engine.config(), state.slot_type(), slot_suffixes(state))), engine, ranks, team);
  if (!reads_all(engine, ranks)) state.gather();
  state.set_updates(reader.manifest().updates);
  engine.weights_changed();
}

void dump_step(const io::Path& file, Engine& engine, std::span<const data::Batch> batches, double loss) {
  comm::Communicator& ranks = engine.groups().data().host();
  std::vector<std::int32_t> tokens = joined(batches, &data::Batch::tokens, ranks);
  std::vector<std::int32_t> targets = joined(batches, &data::Batch::targets, ranks);
  parallel::TrainingState& state = engine.state();
  const std::string no_suffix;
  WholeTensors gradients(trained_tensors(engine.config(), DType::f32, std::span(&no_suffix, 1))),
      masters(weight_tensors(engine.config()));
  state.for_each({.weights = false, .gradients = true},
                 [&](const parallel::StateRange& range) { gradients.take(state, range, range.gradient, engine.pieces()); });
  state.for_each({}, [&](const parallel::StateRange& range) { masters.take(state, range, range.master, engine.pieces()); });
  for (WholeTensors* tensors : {&gradients, &masters}) tensors->complete(engine.groups().all().host());
  if (!engine.groups().lead()) return;
  const std::int64_t positions = engine.config().positions;
  const Shape shape{static_cast<std::int64_t>(tokens.size()) / positions, positions};
  checkpoint::NamedTensors all{{"tokens", view(std::span(tokens), shape)},
                               {"targets", view(std::span(targets), shape)},
                               {"loss", view(std::span(&loss, 1), Shape{1})}};
  for (const auto& [name, weight] : masters.all()) {
    if (const Tensor* gradient = gradients.find(name)) all.push_back({"gradient." + name, *gradient});
    all.push_back({"weight." + name, weight});
  }
  checkpoint::write_tensors(file, all);
}

}  // namespace lockstep::train
