#include "train/saving/weights_hash.h"

#include <fmt/format.h>

#include <map>
#include <span>
#include <vector>

#include "io/checksum.h"
#include "io/sha256.h"
#include "train/saving/named_state.h"

namespace lockstep::train {

std::string hash_of_weights(Engine& engine) {
  const std::vector<checkpoint::LogicalTensor> tensors = weight_tensors(engine.config());
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) places.emplace(tensors[i].name, i);
  std::vector<checkpoint::Tally> tallies(tensors.size());
  parallel::TrainingState& state = engine.state();
  state.collect();
  const auto add = [&](const std::vector<checkpoint::HeldTensor>& held) {
    for (const checkpoint::HeldTensor& one : held) {
      checkpoint::Tally& tally = tallies[places.at(one.tensor.name)];
      for (const checkpoint::HeldRange& range : one.ranges) {
        if (!range.counts) continue;
        checkpoint::for_each_run(range, [&](std::int64_t first, const Tensor& values) {
          const std::span<const std::byte> bytes{values.data, values.bytes()};
          tally.add(io::checksum(bytes, size_of(values.dtype), static_cast<std::uint64_t>(first)), values.elements());
        });
      }
    }
  };
  state.for_each({},
                 [&](const parallel::StateRange& range) { hold_own(engine.pieces(), state, range, {}, {.slots = false}, add); });
  checkpoint::add_over(engine.groups().all(), tallies);
  io::Sha256 hash;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string line = fmt::format("{} {:016x} {}\n", tensors[i].name, tallies[i].checksum, tallies[i].elements);
    hash.update(std::as_bytes(std::span(line)));
  }
  return hash.hex();
}

}  // namespace lockstep::train
