#include "lab/against/oracle.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>

#include "arch/rotary.h"
#include "lab/against/tape.h"
#include "ops/reference/math.h"

namespace lockstep::lab::against {
namespace {

using arch::Role;

class Walk {
 public:
  Walk(const Question& question, const Rounding* rounding)
      : q_(question),
        c_(question.config),
        tape_(question.batch.columns, rounding),
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
    if (c_.position == arch::PositionKind::rope) frequencies_ = arch::rotary_frequencies(c_);
  }

  Walked run() {
    walked_.losses.resize(at(q_.batch.rows * t_));
    for (row_ = 0; row_ < q_.batch.rows; ++row_) {
      Node* x = &embed();
      for (std::int64_t i = 0; i < c_.layers; ++i) x = &block(*x, i);
      lose(head(norm(*x, Role::final_gain, Role::final_bias, {Place::final_norm, 0})));
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
    Node& heads = attend(rotate(q_.ways.qkv_groups == 1 ? qkv : regroup(qkv)));
    Node& middle = add(x, out(heads, Role::attention_out_weight, Role::attention_out_bias, {Place::attention_out, i}));
    Node& up =
        in(norm(middle, Role::norm2_gain, Role::norm2_bias, {Place::norm2, i}), Role::up_weight, Role::up_bias, {Place::up, i});
    Node& active = seen(activate(up), {Place::activated, i});
    return seen(add(middle, out(active, Role::down_weight, Role::down_bias, {Place::down, i})), {Place::block, i});
  }

  Node& embed() {
    Node &table = *find(Role::token_table, 0), *places = find(Role::position_table, 0);
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
      x[i] = table.value[token] + (places == nullptr ? 0 : places->value[place]);
    });
    Node& node = tape_.make(std::move(x));
    tape_.then(node, [=, this, &node, &table] {
      for_each([&](std::size_t i, std::size_t token, std::size_t place) {
        if (!tape_.keeps(i / at(c_.width))) return;
        table.slope[token] += node.slope[i] * (c_.tied ? q_.ways.table_share : 1);
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

  /// Adds gradients of a vector that all tensor ranks hold: over positions, which they may divide.
  void add_rows(Values& sums, const Values& slope, const Values* unit = nullptr) {
    for (std::size_t i = 0; i < slope.size(); ++i) {
      const std::int64_t t = static_cast<std::int64_t>(i / sums.size());
      if (q_.ways.norm_positions.has(t, t_) && tape_.keeps(at(t)))
        tape_.add(sums[i % sums.size()], slope[i] * (unit == nullptr ? 1 : (*unit)[i]));
    }
  }

  Node& norm(Node& x, Role gain_role, Role bias_role, Spot spot) {
    Node &gain = *find(gain_role, spot.second), *bias = find(bias_role, spot.second);
    const std::size_t width = gain.value.size();
    const auto n = static_cast<double>(width);
    const bool centred = c_.norm == arch::NormKind::layernorm;
    Values unit = x.value, scale(at(t_));
    for (std::size_t t = 0; t < scale.size(); ++t) {
      double* row = unit.data() + t * width;
      const double mean = centred ? std::accumulate(row, row + width, 0.0) / n : 0;
      double squares = 0;
      for (std::size_t j = 0; j < width; ++j) row[j] -= mean, squares += row[j] * row[j];
      scale[t] = 1 / std::sqrt(squares / n + static_cast<double>(c_.norm_eps));
      for (std::size_t j = 0; j < width; ++j) row[j] *= scale[t];
    }
    tape_.round(unit);
    Node& y = tape_.make(unit);
    for (std::size_t i = 0; i < unit.size(); ++i)
      y.value[i] = unit[i] * gain.value[i % width] + (bias == nullptr ? 0 : bias->value[i % width]);
    tape_.round(y.value);
    tape_.then(y, [=, this, &x, &y, &gain, unit = std::move(unit), scale = std::move(scale)] {
      add_rows(gain.slope, y.slope, &unit);
      if (bias != nullptr) add_rows(bias->slope, y.slope);
      for (std::size_t t = 0; t < scale.size(); ++t) {
        double sum = 0, dot = 0;
        for (std::size_t j = 0, i = t * width; j < width; ++j, ++i) {
          sum += centred ? y.slope[i] * gain.value[j] / n : 0;
          dot += y.slope[i] * gain.value[j] * unit[i] / n;
        }
        for (std::size_t j = 0, i = t * width; j < width; ++j, ++i)
          x.slope[i] += scale[t] * (y.slope[i] * gain.value[j] - sum - unit[i] * dot);
      }
    });
    return seen(y, spot);
  }

  /// Into features that tensor ranks divide: x W^T + b.
  Node& in(Node& x, Role matrix, Role bias_role, Spot spot) {
    Node &w = *find(matrix, spot.second), *bias = find(bias_role, spot.second);
    Node& y = tape_.product(x, w, bias, {.slope_times = q_.ways.in_slope_times}, [=, this](Values& slope) {
      const std::int64_t width = static_cast<std::int64_t>(slope.size()) / t_;
      for (std::int64_t i = 0; i < std::ssize(slope) && q_.ways.in_sum.parts > 1; ++i) {
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
      for (std::int64_t i = 0; i < std::ssize(values); ++i) values[at(i)] *= q_.ways.out_sum.has(i % width, width) ? 1 : 0;
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
      if (bias != nullptr) add_rows(bias->slope, slope);
    });
    return seen(y, spot);
  }

  Node& head(Node& x) {
    Node& w = *find(c_.tied ? Role::token_table : Role::head_weight, 0);
    return seen(tape_.product(x, w, nullptr, {.weight_slope_times = c_.tied ? q_.ways.head_share : 1}), {Place::logits, 0});
  }

  /// Queries, keys and values out of rows that lie group by group.
  Node& regroup(Node& x) {
    const std::int64_t width = q_width_ + 2 * kv_width_, groups = q_.ways.qkv_groups;
    std::vector<std::int64_t> rows;
    for (const auto& [first, size] :
         {std::pair(std::int64_t{0}, q_width_), {q_width_, kv_width_}, {q_width_ + kv_width_, kv_width_}}) {
      for (std::int64_t i = 0; i < size; ++i)
        rows.push_back(i / (size / groups) * (width / groups) + first / groups + i % (size / groups));
    }
    const auto from = [=](std::size_t i) { return i - i % at(width) + at(rows[i % at(width)]); };
    Node& y = tape_.make(x.value);
    for (std::size_t i = 0; i < y.value.size(); ++i) y.value[i] = x.value[from(i)];
    tape_.then(y, [=, &x, &y] {
      for (std::size_t i = 0; i < y.slope.size(); ++i) x.slope[from(i)] += y.slope[i];
    });
    return y;
  }

  Node& rotate(Node& x) {
    const std::int64_t width = q_width_ + 2 * kv_width_, half = c_.head_size / 2;
    const bool neighbours = q_.ways.neighbours_rotated;
    const auto turn = [=, this](Values& values, double direction) {
      for (std::int64_t t = 0; t < t_; ++t) {
        for (std::int64_t i = 0; i < std::ssize(frequencies_); ++i) {
          const auto [cosine, sine] = tape_.turn(of(q_.batch.positions, t), frequencies_[at(i)]);
          for (std::int64_t first = t * width; first < t * width + q_width_ + kv_width_; first += c_.head_size) {
            double &a = values[at(first + (neighbours ? 2 * i : i))],
                   &b = values[at(first + (neighbours ? 2 * i + 1 : i + half))];
            a = std::exchange(b, b * cosine + a * sine * direction) * -sine * direction + a * cosine;
          }
        }
      }
    };
    Node& y = tape_.make(x.value);
    turn(y.value, 1);
    tape_.round(y.value);
    tape_.then(y, [=, &x, &y] {
      turn(y.slope, -1);
      for (std::size_t i = 0; i < x.slope.size(); ++i) x.slope[i] += y.slope[i];
    });
    return y;
  }

  bool sees(std::int64_t from, std::int64_t to) const {
    const auto document = [this](std::int64_t t) { return of(q_.batch.documents, t); };
    const auto slot = [](const auto& slots, std::int64_t t) { return slots.empty() ? t : slots[at(t)]; };
    return document(from) == document(to) && slot(q_.ways.key_slots, to) <= slot(q_.ways.query_slots, from) + q_.ways.sees_ahead;
  }

  /// What one query head sees from one position: where things lie in qkv and in the heads, and the weights of what is seen.
  struct Look {
    std::int64_t query, out, key, value;  // keys and values: from the start of their rows
    std::vector<std::int64_t> rows;
    Values weights;
  };
  double score_scale() const { return q_.ways.score_factor / std::sqrt(static_cast<double>(c_.head_size)); }

  Look look(const Values& qkv, std::int64_t h, std::int64_t i) {
    const std::int64_t width = q_width_ + 2 * kv_width_, size = c_.head_size;
    const std::int64_t in_turn = c_.kv_heads / std::max<std::int64_t>(q_.ways.kv_turns, 1);  // heads of a part
    const std::int64_t own = h / (c_.heads / c_.kv_heads),
                       kv = q_.ways.kv_turns == 0 ? own : own / in_turn * in_turn + h % in_turn;
    Look found{i * width + h * size, i * q_width_ + h * size, q_width_ + kv * size, q_width_ + kv_width_ + kv * size, {}, {}};
    for (std::int64_t j = 0; j < t_; ++j) {
      if (sees(i, j)) found.rows.push_back(j * width);
    }
    if (found.rows.empty()) found.rows.push_back(i * width);  // where a mask leaves nothing, a position sees itself
    for (const std::int64_t row : found.rows) {
      const double score = tape_.dot(qkv.data() + found.query, qkv.data() + row + found.key, size) * score_scale();
      found.weights.push_back(tape_.rounded(score));
    }
    const double largest = *std::ranges::max_element(found.weights);
    double sum = 0;
    for (double& weight : found.weights) sum += weight = std::exp(weight - largest);
    for (double& weight : found.weights) weight = tape_.rounded(weight / sum);
    return found;
  }

  void look_back(Node& x, const double* slope, const Look& seen) {
    const std::int64_t size = c_.head_size, width = q_width_ + 2 * kv_width_;
    const auto part = [this](std::int64_t t) { return q_.ways.key_parts[at(t)]; };
    Values d(seen.weights.size());
    for (std::size_t j = 0; j < d.size(); ++j)
      d[j] = tape_.rounded(tape_.dot(slope, x.value.data() + seen.rows[j] + seen.value, size));
    const double mean = std::inner_product(d.begin(), d.end(), seen.weights.begin(), 0.0);
    for (std::size_t j = 0; j < d.size(); ++j) {
      const double score = tape_.rounded(seen.weights[j] * (d[j] - mean)) * score_scale();
      for (std::int64_t k = 0; k < size; ++k) {
        const std::size_t from = at(seen.query + k), to = at(seen.rows[j] + seen.key + k);
        x.slope[from] += score * x.value[to];
        if (!q_.ways.key_parts.empty() && part(seen.out / q_width_) != part(seen.rows[j] / width)) continue;
        x.slope[to] += score * x.value[from];
        x.slope[at(seen.rows[j] + seen.value + k)] += seen.weights[j] * slope[k];
      }
    }
  }

  /// Heads [T, H D] of qkv [T, (H + 2 K) D].
  Node& attend(Node& x) {
    Node& y = tape_.make(Values(at(t_ * q_width_)));
    for (std::int64_t h = 0; h < c_.heads; ++h) {
      for (std::int64_t i = 0; i < t_; ++i) {
        Look seen = look(x.value, h, i);
        for (std::size_t j = 0; j < seen.rows.size(); ++j) {
          for (std::int64_t k = 0; k < c_.head_size; ++k)
            y.value[at(seen.out + k)] += seen.weights[j] * x.value[at(seen.rows[j] + seen.value + k)];
        }
        tape_.then(y, [this, &x, &y, seen = std::move(seen)] { look_back(x, y.slope.data() + seen.out, seen); });
      }
    }
    tape_.round(y.value);
    return y;
  }

  Node& activate(Node& up) {
    const auto kind = static_cast<ops::Activation>(c_.activation);
    const std::size_t size = at(c_.ffn_width), gate = c_.gated ? size : 0, first = q_.ways.gate_swapped ? gate : 0;
    Node& y = tape_.make(Values(at(t_) * size));
    const auto for_each = [=, &y](const auto& take) {  // the element's number, its input's, and that of what it is multiplied by
      for (std::size_t i = 0; i < y.value.size(); ++i) take(i, i / size * (size + gate) + i % size);
    };
    for_each([&](std::size_t i, std::size_t in) {
      const double value = tape_.rounded(ops::reference::activate(up.value[in + first], kind));
      y.value[i] = tape_.rounded(value * (gate > 0 ? up.value[in + gate - first] : 1));
    });
    tape_.then(y, [=, &up, &y] {
      for_each([&](std::size_t i, std::size_t in) {
        const double times = gate > 0 ? up.value[in + gate - first] : 1, value = up.value[in + first];
        up.slope[in + first] += y.slope[i] * ops::reference::slope(value, kind) * times;
        if (gate > 0) up.slope[in + gate - first] += y.slope[i] * ops::reference::activate(value, kind);
      });
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
      const double whole = largest + std::log(sum);
      walked_.losses[at(row_ * t_ + t)] = whole - row[target];
      walked_.loss += (whole - row[target]) * q_.loss_shares[at(row_ * t_ + t)];
      for (std::size_t j = 0; j < size; ++j)
        logits.slope[at(t) * size + j] = (std::exp(row[j] - whole) - (j == at(target) ? 1 : 0)) * q_.shares[at(row_ * t_ + t)];
    }
  }

  const Question& q_;
  const arch::ModelConfig& c_;
  Tape tape_;
  std::int64_t t_, q_width_, kv_width_, row_ = 0;
  std::vector<float> frequencies_;  // radians a position, of each pair that is turned
  std::deque<Node> parameters_;
  std::map<std::pair<Role, std::int64_t>, Node*> by_role_;
  Walked walked_;
};

}  // namespace

Walked walk(const Question& question, const Rounding* rounding) { return Walk(question, rounding).run(); }

std::vector<layout::ParameterInfo> parameters_of(const arch::ModelConfig& config) {
  std::vector<layout::ParameterInfo> all;
  for (const arch::UnitSpec& unit : arch::unit_table(config)) {
    for (const arch::ParameterSpec& parameter : unit.parameters) all.push_back(parameter.info);
  }
  return all;
}

}  // namespace lockstep::lab::against
