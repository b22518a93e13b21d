#include "lab/against/oracle.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <span>

#include "lab/against/activate.h"
#include "lab/against/tape.h"
#include "lab/against/walk_heads.h"
#include "lab/against/walk_norm.h"

namespace lockstep::lab::against {
namespace {

using arch::Role;

class Walk {
 public:
  Walk(const Question& question, const Rounding* rounding)
      : q_(question),
        c_(question.config),
        tape_(question.batch.columns, rounding),
        heads_(question, tape_),
        t_(question.batch.columns),
        q_width_(c_.heads * c_.head_size),
        kv_width_(c_.kv_heads * c_.head_size) {
    const arch::UnitMap map = arch::unit_map(c_);
    for (std::int64_t unit = 0; const arch::UnitSpec& spec : arch::unit_table(c_)) {
      const std::int64_t block = unit++ - map.blocks.front().value;
      for (const arch::ParameterSpec& parameter : spec.parameters) {
        Node& node = parameters_.emplace_back(Node{(*q_.weights)[parameters_.size()], {}});
        tape_.keep(node);
        by_role_[{static_cast<Role>(parameter.info.role), block >= 0 && block < c_.layers ? block : 0}] = &node;
      }
    }
    tape_.keep_rows(q_.ways.own_positions);
  }

  Walked run() {
    walked_.losses.resize(at(q_.batch.rows * t_));
    for (row_ = 0; row_ < q_.batch.rows; ++row_) {
      Node* x = &embed();
      for (std::int64_t i = 0; i < c_.layers; ++i) {
        Node& y = block(*x, i);
        if (i != q_.ways.left_out_block) x = &y;
      }
      const Spot last{Place::final_norm, 0};
      Node& logits = head(q_.ways.no_final_norm ? seen(*x, last) : norm(*x, Role::final_gain, Role::final_bias, last));
      lose(q_.ways.softmax_twice ? softmax(logits) : logits);
      tape_.back();
      for (Node& parameter : parameters_) tape_.round(parameter.slope);
    }
    for (Node& parameter : parameters_) walked_.gradients.push_back(std::move(parameter.slope));
    return std::move(walked_);
  }

 private:
  Node* find(Role role, std::int64_t block) {
    const auto found = by_role_.find({role, block});
    return found == by_role_.end() ? nullptr : found->second;
  }
  std::int64_t of(const std::vector<std::int64_t>& numbers, std::int64_t t) const { return numbers[at(row_ * t_ + t)]; }
  /// Keeps what comes out at a place.
  Node& seen(Node& node, Spot spot) {
    Values& all = walked_.activations[spot];
    all.insert(all.end(), node.value.begin(), node.value.end());
    return node;
  }

  Node& block(Node& x, std::int64_t i) {
    Node& qkv =
        in(norm(x, Role::norm1_gain, Role::norm1_bias, {Place::norm1, i}), Role::qkv_weight, Role::qkv_bias, {Place::qkv, i});
    Node& heads = heads_.attend(
        qkv, {.block = i, .row = row_, .query_gain = find(Role::query_gain, i), .key_gain = find(Role::key_gain, i)});
    Node& attention = out(heads, Role::attention_out_weight, Role::attention_out_bias, {Place::attention_out, i});
    Node& middle = join(x, norm(attention, Role::post1_gain, Role::post1_bias, {Place::post1, i}), q_.ways.no_attention_residual);
    Node& up =
        in(norm(middle, Role::norm2_gain, Role::norm2_bias, {Place::norm2, i}), Role::up_weight, Role::up_bias, {Place::up, i});
    Node& active = seen(activate(up), {Place::activated, i});
    Node& down = out(active, Role::down_weight, Role::down_bias, {Place::down, i});
    return seen(join(middle, norm(down, Role::post2_gain, Role::post2_bias, {Place::post2, i}), q_.ways.no_mlp_residual),
                {Place::block, i});
  }

  bool sums(Spot spot) const { return q_.ways.summed == Place::block || q_.ways.summed == spot.first; }

  Node& join(Node& x, Node& branch, bool alone) {
    Node& scaled = times(branch, c_.residual_scale);
    return alone ? scaled : add(x, scaled);
  }

  Node& embed() {
    Node &table = *find(Role::token_table, 0), *places = q_.ways.no_places ? nullptr : find(Role::position_table, 0);
    Values x(at(t_ * c_.width));
    const auto for_each = [this, places](const auto& take) {
      for (std::int64_t t = 0; t < t_; ++t) {
        for (std::int64_t j = 0; j < c_.width; ++j) {
          take(at(t * c_.width + j), at(of(q_.batch.tokens, t) * c_.width + j),
               places == nullptr ? 0 : at(of(q_.batch.positions, t) * c_.width + j));
        }
      }
    };
    for_each([&](std::size_t i, std::size_t token, std::size_t place) {
      x[i] = table.value[token] * c_.embedding_scale + (places == nullptr ? 0 : places->value[place]);
    });
    Node& node = tape_.make(std::move(x));
    tape_.then(node, [=, this, &node, &table] {
      for_each([&](std::size_t i, std::size_t token, std::size_t place) {
        if (!tape_.keeps(i / at(c_.width))) return;
        table.slope[token] += node.slope[i] * c_.embedding_scale * (c_.tied ? q_.ways.table_share : 1);
        if (places != nullptr) places->slope[place] += node.slope[i];
      });
    });
    return seen(node, {Place::embedding, 0});
  }

  Node& add(Node& a, Node& b) {
    Node& sum = tape_.make(a.value);
    for (std::size_t i = 0; i < sum.value.size(); ++i) sum.value[i] += b.value[i];
    tape_.round(sum.value);
    tape_.then(sum, [&] {
      for (std::size_t i = 0; i < sum.slope.size(); ++i) a.slope[i] += sum.slope[i], b.slope[i] += sum.slope[i];
    });
    return sum;
  }

  /// x itself where the model has no such norm.
  Node& norm(Node& x, Role gain_role, Role bias_role, Spot spot) {
    Node* gain = find(gain_role, spot.second);
    if (gain == nullptr) return x;
    const NormedColumns whole{.size = c_.width, .gain = gain, .bias = find(bias_role, spot.second)};
    return seen(normalise(q_, tape_, x, {whole}, c_.norm == arch::NormKind::layernorm), spot);
  }

  Node& times(Node& x, double factor) {
    if (factor == 1) return x;
    Node& y = tape_.make(x.value);
    for (double& value : y.value) value *= factor;
    tape_.round(y.value);
    tape_.then(y, [&x, &y, factor] {
      for (std::size_t i = 0; i < y.slope.size(); ++i) x.slope[i] += y.slope[i] * factor;
    });
    return y;
  }

  /// cap tanh(x / cap)
  Node& cap(Node& x, double cap) {
    if (cap == 0) return x;
    Node& y = tape_.make(x.value);
    for (double& value : y.value) value = tape_.rounded(std::tanh(tape_.rounded(value / cap))) * cap;
    tape_.round(y.value);
    tape_.then(y, [&x, &y, cap] {
      for (std::size_t i = 0; i < y.slope.size(); ++i) x.slope[i] += y.slope[i] * (1 - y.value[i] / cap * y.value[i] / cap);
    });
    return y;
  }

  /// Into features that tensor ranks divide: x W^T + b.
  Node& in(Node& x, Role matrix, Role bias_role, Spot spot) {
    const bool unbiased = q_.ways.no_qkv_bias && spot.first == Place::qkv;
    Node &w = *find(matrix, spot.second), *bias = unbiased ? nullptr : find(bias_role, spot.second);
    Node& y = tape_.product(x, w, bias, {.slope_times = q_.ways.in_slope_times}, [=, this](Values& slope) {
      const std::int64_t width = static_cast<std::int64_t>(slope.size()) / t_;
      for (std::int64_t i = 0; i < std::ssize(slope) && q_.ways.in_sum.parts > 1 && sums(spot); ++i) {
        const std::int64_t j = i % width;
        const bool query = spot.first == Place::qkv && j < q_width_;
        const std::int64_t part = spot.first == Place::up ? c_.ffn_width : query ? q_width_ : kv_width_;
        if (!q_.ways.in_sum.has((query || spot.first == Place::up ? j : j - q_width_) % part, part)) slope[at(i)] = 0;
      }
    });
    return seen(y, spot);
  }

  /// Out of such features: the products are added over the ranks, then the bias.
  Node& out(Node& x, Role matrix, Role bias_role, Spot spot) {
    Node &w = *find(matrix, spot.second), *bias = find(bias_role, spot.second);
    const std::int64_t width = static_cast<std::int64_t>(x.value.size()) / t_;
    const auto take = [=, this](Values& values) {
      for (std::int64_t i = 0; i < std::ssize(values) && sums(spot); ++i)
        values[at(i)] *= q_.ways.out_sum.has(i % width, width) ? 1 : 0;
    };
    Node& part = tape_.make(x.value);
    take(part.value);
    tape_.then(part, [=, &x, &part] {
      take(part.slope);
      for (std::size_t i = 0; i < x.slope.size(); ++i) x.slope[i] += part.slope[i];
    });
    const Tape::Product how{.value_times = q_.ways.out_times,
                            .bias_times = q_.ways.out_bias_times,
                            .slope_times = q_.ways.out_slope_times,
                            .weight_slope_times = q_.ways.out_slope_times,
                            .bias_slope = false};
    Node& y = tape_.product(part, w, bias, how, [=, this](Values& slope) {
      for (std::size_t i = 0; i < slope.size() && bias != nullptr; ++i) {
        const std::size_t features = bias->slope.size();
        if (counts_position(q_, tape_, static_cast<std::int64_t>(i / features))) tape_.add(bias->slope[i % features], slope[i]);
      }
    });
    return seen(y, spot);
  }

  Node& head(Node& x) {
    Node& w = *find(c_.tied ? Role::token_table : Role::head_weight, 0);
    Node& product = tape_.product(x, w, nullptr, {.weight_slope_times = c_.tied ? q_.ways.head_share : 1});
    return seen(cap(times(seen(product, {Place::head, 0}), c_.logit_scale), c_.logit_softcap), {Place::logits, 0});
  }

  Node& activate(Node& up) {
    const auto kind = static_cast<ops::Activation>(c_.activation);
    const std::size_t size = at(c_.ffn_width), gate = c_.gated ? size : 0, first = q_.ways.gate_swapped ? gate : 0;
    Node& y = tape_.make(Values(at(t_) * size));
    const auto for_each = [=, &y](const auto& take) {  // the element's number, its input's, and that of what it is multiplied by
      for (std::size_t i = 0; i < y.value.size(); ++i) take(i, i / size * (size + gate) + i % size);
    };
    for_each([&](std::size_t i, std::size_t in) {
      const double value = tape_.rounded(against::activate(up.value[in + first], kind).value);
      y.value[i] = tape_.rounded(value * (gate > 0 ? up.value[in + gate - first] : 1));
    });
    tape_.then(y, [=, &up, &y] {
      for_each([&](std::size_t i, std::size_t in) {
        const double times = gate > 0 ? up.value[in + gate - first] : 1, value = up.value[in + first];
        const Activated activated = against::activate(value, kind);
        up.slope[in + first] += y.slope[i] * activated.slope * times;
        if (gate > 0) up.slope[in + gate - first] += y.slope[i] * activated.value;
      });
    });
    return y;
  }

  Node& softmax(Node& logits) {
    Node& y = tape_.make(logits.value);
    const std::size_t size = at(c_.vocabulary);
    for (std::size_t first = 0; first < y.value.size(); first += size) {
      const std::span<double> row(y.value.data() + first, size);
      const double largest = *std::ranges::max_element(row);
      double sum = 0;
      for (double& one : row) sum += one = std::exp(one - largest);
      for (double& one : row) one /= sum;
    }
    tape_.then(y, [&logits, &y, size] {
      for (std::size_t first = 0; first < y.value.size(); first += size) {
        double mean = 0;
        for (std::size_t i = first; i < first + size; ++i) mean += y.value[i] * y.slope[i];
        for (std::size_t i = first; i < first + size; ++i) logits.slope[i] += y.value[i] * (y.slope[i] - mean);
      }
    });
    return y;
  }

  /// The losses of the row, and the slopes of its logits.
  void lose(Node& logits) {
    const std::size_t size = at(c_.vocabulary);
    const auto more = static_cast<double>(std::max<std::int64_t>(q_.ways.padded_vocabulary - c_.vocabulary, 0));
    for (std::int64_t t = 0; t < t_; ++t) {
      const double *row = logits.value.data() + at(t) * size, largest = std::max(*std::max_element(row, row + size), 0.0);
      const std::int64_t target = of(q_.batch.targets, t);
      if (target < 0) continue;
      double sum = more * std::exp(-largest);
      for (std::size_t j = 0; j < size; ++j) sum += std::exp(row[j] - largest);
      const double whole = largest + std::log(sum), smoothing = q_.ways.smoothing, squared = q_.ways.squared_log;
      const double each = smoothing / static_cast<double>(size);
      double loss = whole - (1 - smoothing) * row[target] + squared * whole * whole;
      for (std::size_t j = 0; j < size && smoothing > 0; ++j) loss -= each * row[j];
      walked_.losses[at(row_ * t_ + t)] = loss;
      walked_.loss += loss * q_.loss_shares[at(row_ * t_ + t)];
      for (std::size_t j = 0; j < size; ++j) {
        const double taught = (j == at(target) ? 1 - smoothing : 0) + each;
        logits.slope[at(t) * size + j] =
            (std::exp(row[j] - whole) * (1 + 2 * squared * whole) - taught) * q_.shares[at(row_ * t_ + t)];
      }
    }
  }

  const Question& q_;
  const arch::ModelConfig& c_;
  Tape tape_;
  HeadWalk heads_;
  std::int64_t t_, q_width_, kv_width_, row_ = 0;
  std::deque<Node> parameters_;
  std::map<std::pair<Role, std::int64_t>, Node*> by_role_;
  Walked walked_;
};

}  // namespace

Walked walk(const Question& question, const Rounding* rounding) { return Walk(question, rounding).run(); }

double score_scale(const arch::ModelConfig& config) {
  return config.attention_scale > 0 ? config.attention_scale : 1 / std::sqrt(static_cast<double>(config.head_size));
}

std::vector<layout::ParameterInfo> parameters_of(const arch::ModelConfig& config) {
  std::vector<layout::ParameterInfo> all;
  for (const arch::UnitSpec& unit : arch::unit_table(config)) {
    for (const arch::ParameterSpec& parameter : unit.parameters) all.push_back(parameter.info);
  }
  return all;
}

}  // namespace lockstep::lab::against
