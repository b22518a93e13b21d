#pragma once

// A small model's state to save and read back.

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "support/temp_folder.h"

namespace lockstep::checkpoint {

/// The ranges that this rank saves and reads.
struct Content {
  std::vector<HeldTensor> model;      ///< weights by their global names
  std::vector<HeldTensor> optimizer;  ///< what an optimizer keeps of them
};

inline SaveReport save(comm::Communicator& ranks, const io::Path& run, const Content& content, Manifest manifest, Team& team) {
  Writer writer(ranks, run, manifest.step,
                {{std::string(model_file), logical(content.model)}, {std::string(optimizer_file), logical(content.optimizer)}});
  writer.write(content.model, team);
  writer.write(content.optimizer, team);
  return writer.commit(std::move(manifest));
}
/// Saves as one rank.
inline SaveReport save(const io::Path& run, const Content& content, Manifest manifest, Team& team) {
  return save(*comm::make_self(), run, content, std::move(manifest), team);
}

/// Fills the ranges from the reader.
inline void read(comm::Communicator& ranks, const Reader& reader, std::span<const HeldTensor> tensors, Team& team) {
  const std::unique_ptr<RangeReader> ranges = reader.read(logical(tensors));
  ranges->fill(tensors, team);
  ranges->finish(ranks);
}
inline void read(const Reader& reader, std::span<const HeldTensor> tensors, Team& team) {
  read(*comm::make_self(), reader, tensors, team);
}

struct Sample {
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  std::vector<std::vector<float>> weights, first_moments, second_moments;

  explicit Sample(unsigned seed = 1)
      : names{"wte.weight", "h.0.bias", "h.0.weight", "odd"}, shapes{{65, 30}, {30}, {30, 120}, {7}} {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (const Shape& shape : shapes) {
      for (auto* kind : {&weights, &first_moments, &second_moments}) {
        kind->emplace_back(static_cast<std::size_t>(shape.elements()));
        for (float& value : kind->back()) value = normal(generator);
      }
    }
  }

  /// All of the state as one rank holds it: views of this object.
  Content content() {
    Content content;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto whole = [&](std::vector<float>& values) { return view(std::span(values), shapes[i]); };
      content.model.push_back(hold_whole(names[i], whole(weights[i])));
      content.optimizer.push_back(hold_whole(names[i] + ".exp_avg", whole(first_moments[i])));
      content.optimizer.push_back(hold_whole(names[i] + ".exp_avg_sq", whole(second_moments[i])));
    }
    return content;
  }

  bool operator==(const Sample&) const = default;
};

inline Manifest sample_manifest(std::int64_t step, std::optional<double> validation_loss = {}) {
  Manifest manifest;
  manifest.program = "lockstep test";
  manifest.step = manifest.updates = step;
  manifest.seed = 0xFFFFFFFFFFFFFFFF;
  manifest.next_sample = step * 12;
  manifest.tokens_seen = step * 12 * 64;
  manifest.global_batch = 12;
  manifest.validation_loss = validation_loss;
  manifest.best_validation_loss = validation_loss;
  manifest.model = Json::Object{{"n_layer", 1}, {"n_embd", 30}};
  manifest.optimizer = Json::Object{{"lr", 0.001}};
  manifest.run = Json::Object{{"epoch", 2}};
  manifest.master_is_model = true;
  return manifest;
}

/// The message of the UserError that `call` throws; each problem must have a remedy.
template <class Call>
std::string complaint_of(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.problems().front().remedy.empty() ? "no remedy" : error.what();
  }
  return "no error";
}

}  // namespace lockstep::checkpoint
