#pragma once

// Makes dumps of steps that the oracle itself computes, right or in a wrong way.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "io/safetensors.h"
#include "lab/against/judge.h"
#include "support/temp_folder.h"
#include "tensor/bfloat16.h"

namespace lockstep::lab::against {

inline io::Path published_model(const std::string& name) { return io::Path("tests/golden/data/huggingface") / name; }

/// A tensor of a dump, before it is written.
struct Written {
  std::string dtype;
  std::vector<std::int64_t> shape;
  Values values;
};
using Tensors = std::map<std::string, Written>;

inline std::string bytes_of(const Written& tensor) {
  std::string bytes;
  for (const double value : tensor.values) {
    const auto number = static_cast<float>(value);
    const auto whole = static_cast<std::int64_t>(value);
    const auto half = static_cast<std::uint16_t>(to_bfloat16(number));
    if (tensor.dtype == "I64") bytes.append(reinterpret_cast<const char*>(&whole), sizeof(whole));
    if (tensor.dtype == "F32") bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    if (tensor.dtype == "BF16") bytes.append(reinterpret_cast<const char*>(&half), sizeof(half));
  }
  return bytes;
}

inline void write_tensors(const io::Path& file, const Tensors& tensors) {
  std::vector<io::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.dtype, tensor.shape, 0, 0});
  const io::SafetensorsHeader header = io::lay_out_safetensors(entries);
  std::string content = io::safetensors_header_bytes(header);
  content.resize(header.file_bytes);
  for (const io::SafetensorsEntry& entry : header.entries) {
    const std::string bytes = bytes_of(tensors.at(entry.name));
    content.replace(entry.offset, bytes.size(), bytes);
  }
  io::replace_file(file, content);
}

/// The right step of a published model. Tests change it in wrong ways, and write the result as a dump.
class MadeStep {
 public:
  explicit MadeStep(const std::string& model, std::int64_t rows = 4, std::int64_t columns = 12)
      : weights_(published_model(model)), names_weights_(weights_.parameters()) {
    Team team(1);
    auto values = std::make_shared<std::vector<Values>>();
    for (const layout::ParameterInfo& info : parameters_of(weights_.config()))
      values->emplace_back(static_cast<std::size_t>(info.shape.elements()));
    weights_.for_each_piece(team, [&](std::size_t index, std::int64_t first, std::span<float> piece) {
      std::ranges::copy(piece, (*values)[index].begin() + first);
    });
    Question& question = right.question;
    question.config = weights_.config();
    question.weights = values;
    Batch& batch = question.batch;
    batch.rows = rows;
    batch.columns = columns;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::int64_t row = i / columns, t = i % columns;
      batch.tokens.push_back((i * i * 7 + 3 * i + row) % question.config.vocabulary);
      batch.positions.push_back(t);
      batch.documents.push_back(0);
    }
    for (std::int64_t i = 0; i < rows * columns; ++i) {  // prompts of different lengths, which are no targets
      const std::int64_t row = i / columns, t = i % columns;
      batch.targets.push_back(t < 2 * row || t + 1 == columns ? -100 : batch.tokens[static_cast<std::size_t>(i + 1)]);
    }
    share_alike(question);
    right.facts = {.learning_rate = 1e-3,
                   .beta1 = 0.9,
                   .beta2 = 0.95,
                   .eps = 1e-8,
                   .weight_decay = 0.1,
                   .clip = 0.5,
                   .step = 1,
                   .micro_batches = 2,
                   .dp = 2,
                   .decay = "matrices"};
    path = weights_.folder().path();
  }

  Names names() const { return {right.question.config, names_weights_, right.question.batch}; }

  /// All tensors of a case, stored in `dtype`. `rounding`: as a program with short numbers computes them; null: exactly.
  Tensors tensors(const Case& c, const Rounding* rounding = nullptr, const std::string& dtype = "F32") const {
    Tensors all;
    const Names known = names();
    const Batch& batch = right.question.batch;
    const std::vector<std::int64_t> shape{batch.rows, batch.columns};
    const auto add_ids = [&](const std::string& name, const std::vector<std::int64_t>& ids) {
      all[name] = {"I64", shape, Values(ids.begin(), ids.end())};
    };
    add_ids("tokens", batch.tokens);
    add_ids("targets", batch.targets);
    if (batch.documents.back() != 0) add_ids("documents", batch.documents);
    if (batch.documents.back() != 0) add_ids("positions", batch.positions);
    const Walked walked = walk(c.question, rounding);
    for (const std::string& module : modules) {
      if (const auto meaning = known.activation(module))
        all["activation." + module] = {dtype, meaning->shape, published(*meaning, walked)};
    }
    all["loss"] = {"F32", {}, {walked.loss}};
    std::map<std::string, Values> gradients;
    for (const auto& [name, meaning] : known.parameters()) {
      gradients[name] = meaning.published(walked.gradients[meaning.index]);
      all["gradient." + name] = {dtype, meaning.shape, gradients[name]};
    }
    const double norm = norm_of(gradients, c, known);
    all["norm"] = {"F32", {}, {norm}};
    for (const auto& [name, meaning] : known.parameters()) {
      const Values zeros(gradients[name].size()), before = meaning.published((*right.question.weights)[meaning.index]);
      const double own = c.update.clip == Clip::by_tensor ? norm_of({{name, gradients[name]}}, right, known) : norm;
      const bool whole = c.update.clip == Clip::none || c.update.clip == Clip::by_element;
      const double factor = whole ? 1 : clip_factor(own, c.facts), most = c.facts.clip;
      Values gradient = gradients[name];
      for (double& one : gradient) one = c.update.clip == Clip::by_element ? std::clamp(one, -most, most) : one;
      const After after = update({before, gradient, zeros, zeros, meaning.decays}, c.facts, c.update, factor);
      all["slot.exp_avg." + name] = {"F32", meaning.shape, after.exp_avg};
      all["slot.exp_avg_sq." + name] = {"F32", meaning.shape, after.exp_avg_sq};
      all["weight." + name] = {"F32", meaning.shape, after.weights};
    }
    return all;
  }

  static double norm_of(const std::map<std::string, Values>& gradients, const Case& c, const Names& names) {
    double squares = 0;
    for (const auto& [name, values] : gradients) {
      const std::size_t rows = static_cast<std::size_t>(names.parameter(name)->shape[0]), columns = values.size() / rows;
      const bool copies = c.update.clip == Clip::copies_counted && names.parameter(name)->replicated;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool other = i / columns / ((rows + 1) / 2) != static_cast<std::size_t>(c.update.part.number);
        if (c.update.clip != Clip::by_part || !other) squares += values[i] * values[i] * (copies ? c.facts.tp : 1);
      }
    }
    return std::sqrt(squares) * (c.update.clip == Clip::before_unscaling ? c.facts.loss_scale : 1);
  }

  Json json() const {
    const Facts& facts = right.facts;
    Json::Object members{{"model", io::Path(std::filesystem::absolute(path)).string()},
                         {"learning_rate", facts.learning_rate},
                         {"betas", Json::Array{facts.beta1, facts.beta2}},
                         {"eps", facts.eps},
                         {"weight_decay", facts.weight_decay},
                         {"clip", facts.clip},
                         {"step", static_cast<std::int64_t>(facts.step)},
                         {"micro_batches", static_cast<std::int64_t>(facts.micro_batches)},
                         {"dp", static_cast<std::int64_t>(facts.dp)},
                         {"tp", static_cast<std::int64_t>(facts.tp)},
                         {"cp", static_cast<std::int64_t>(facts.cp)},
                         {"loss_scale", facts.loss_scale},
                         {"decay_in_gradient", facts.decay_in_gradient}};
    if (!facts.decay.empty()) members.emplace_back("decay", facts.decay);
    if (!facts.dtype.empty()) members.emplace_back("dtype", facts.dtype);
    return members;
  }

  Judgement judged(const Tensors& tensors) const { return judged(tensors, json()); }
  static Judgement judged(const Tensors& tensors, const Json& json) {
    const TempFolder folder;
    write_tensors(folder / "step.safetensors", tensors);
    io::replace_file(folder / "step.json", json.dump());
    return judged(folder.path());
  }
  static Judgement judged(const io::Path& folder) {
    Team team(2);
    const Dump dump = read_dump(folder);
    return judge(Step(dump, checkpoint::huggingface::Weights(dump.model), team), team);
  }

  Case right;
  io::Path path;
  std::vector<std::string> modules{"transformer.drop",
                                   "transformer.h.0.ln_1",
                                   "transformer.h.1",
                                   "transformer.h.0.mlp.act",
                                   "transformer.ln_f",
                                   "lm_head",
                                   "model.embed_tokens",
                                   "model.layers.0.self_attn.k_proj",
                                   "model.layers.1.mlp.up_proj",
                                   "model.layers.0",
                                   "model.norm"};

 private:
  checkpoint::huggingface::Weights weights_;
  std::vector<arch::huggingface::Parameter> names_weights_;
};

/// The word of the first cause of each fault.
inline std::vector<std::string> words_of(const Judgement& judgement) {
  std::vector<std::string> words;
  for (const Fault& fault : judgement.faults) words.push_back(fault.causes.empty() ? "none" : fault.causes.front().word);
  return words;
}
inline std::string first_wrong(const Judgement& judgement) {
  return judgement.faults.empty() ? "" : judgement.faults.front().wrong.front().tensor;
}

}  // namespace lockstep::lab::against
