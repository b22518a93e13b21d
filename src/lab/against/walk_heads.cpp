#include "lab/against/walk_heads.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "arch/rotary.h"
#include "lab/against/walk_norm.h"

namespace lockstep::lab::against {

HeadWalk::HeadWalk(const Question& question, Tape& tape)
    : q_(question),
      c_(question.config),
      tape_(tape),
      t_(question.batch.columns),
      q_width_(c_.heads * c_.head_size),
      kv_width_(c_.kv_heads * c_.head_size) {
  if (c_.position != arch::PositionKind::rope) return;
  arch::ModelConfig config = c_;
  // transformers takes the longer context's factors where a text is that long (modeling_rope_utils.py,
  // longrope_frequency_update).
  if (c_.rope.scaling == arch::RopeScaling::longrope) config.block_size = t_;
  frequencies_ = arch::rotary_frequencies(config);
  if (arch::has_local_theta(c_)) local_frequencies_ = arch::local_rotary_frequencies(config);
}

Node& HeadWalk::attend(Node& qkv, const Call& call) {
  Node& x = rotate(norm(q_.ways.qkv_groups == 1 ? qkv : regroup(qkv), call), call);
  Node& y = tape_.make(Values(at(t_ * q_width_)));
  for (std::int64_t h = 0; h < c_.heads; ++h) {
    for (std::int64_t i = 0; i < t_; ++i) {
      Look seen = look(x.value, call, h, i);
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

Node& HeadWalk::regroup(Node& x) {
  const std::int64_t width = this->width(), groups = q_.ways.qkv_groups;
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

Node& HeadWalk::norm(Node& x, const Call& call) {
  if (!c_.qk_norm) return x;
  const auto of_side = [this](std::int64_t first, std::int64_t width, Node* gain) {
    const std::int64_t groups = c_.qk_norm_whole ? 1 : width / c_.head_size;
    return NormedColumns{.first = first, .groups = groups, .size = width / groups, .gain = gain};
  };
  return normalise(q_, tape_, x, {of_side(0, q_width_, call.query_gain), of_side(q_width_, kv_width_, call.key_gain)}, false);
}

void HeadWalk::turn(Values& values, const Call& call, double direction) const {
  const bool local = !local_frequencies_.empty() && arch::sees_window(c_, call.block), neighbours = q_.ways.neighbours_rotated;
  const std::vector<float>& frequencies = local ? local_frequencies_ : frequencies_;
  const double length = local ? 1 : c_.rope.attention_factor;
  const std::int64_t half = c_.head_size / 2;
  for (std::int64_t t = 0; t < t_; ++t) {
    for (std::int64_t i = 0; i < std::ssize(frequencies); ++i) {
      auto [cosine, sine] = tape_.turn(of(q_.batch.positions, call.row, t), frequencies[at(i)]);
      cosine *= length, sine *= length * (q_.ways.turned_back ? -direction : direction);
      for (std::int64_t first = t * width(); first < t * width() + q_width_ + kv_width_; first += c_.head_size) {
        double &a = values[at(first + (neighbours ? 2 * i : i))], &b = values[at(first + (neighbours ? 2 * i + 1 : i + half))];
        a = std::exchange(b, b * cosine + a * sine) * -sine + a * cosine;
      }
    }
  }
}

Node& HeadWalk::rotate(Node& x, const Call& call) {
  if (frequencies_.empty() || q_.ways.no_places || !arch::turns(c_, static_cast<int>(call.block))) return x;
  Node& y = tape_.make(x.value);
  turn(y.value, call, 1);
  tape_.round(y.value);
  tape_.then(y, [this, call, &x, &y] {
    turn(y.slope, call, -1);
    for (std::size_t i = 0; i < x.slope.size(); ++i) x.slope[i] += y.slope[i];
  });
  return y;
}

bool HeadWalk::sees(const Call& call, std::int64_t from, std::int64_t to) const {
  const auto document = [&](std::int64_t t) { return of(q_.batch.documents, call.row, t); };
  const auto slot = [](const auto& slots, std::int64_t t) { return slots.empty() ? t : slots[at(t)]; };
  const std::int64_t query = slot(q_.ways.query_slots, from), key = slot(q_.ways.key_slots, to);
  const bool near = !arch::sees_window(c_, call.block) || key > query - c_.window;
  const bool same = document(from) < 0 ? document(to) >= 0 : document(from) == document(to);
  return near && same && key <= query + q_.ways.sees_ahead;
}

HeadWalk::Look HeadWalk::look(const Values& qkv, const Call& call, std::int64_t h, std::int64_t i) {
  const std::int64_t width = this->width(), size = c_.head_size;
  const std::int64_t in_turn = c_.kv_heads / std::max<std::int64_t>(q_.ways.kv_turns, 1);  // heads of a part
  const std::int64_t own = h / (c_.heads / c_.kv_heads), kv = q_.ways.kv_turns == 0 ? own : own / in_turn * in_turn + h % in_turn;
  Look found{i * width + h * size, i * q_width_ + h * size, q_width_ + kv * size, q_width_ + kv_width_ + kv * size, {}, {}, {}};
  for (std::int64_t j = 0; j < t_; ++j) {
    if (sees(call, i, j)) found.rows.push_back(j * width);
  }
  if (found.rows.empty()) found.rows.push_back(i * width);  // where a mask leaves nothing, a position sees itself
  const double scale = q_.ways.score_factor * score_scale(c_), cap = c_.attention_softcap;
  for (const std::int64_t row : found.rows) {
    double score = tape_.rounded(tape_.dot(qkv.data() + found.query, qkv.data() + row + found.key, size) * scale);
    if (cap > 0) {
      const double part = tape_.rounded(std::tanh(tape_.rounded(score / cap)));
      score = tape_.rounded(cap * part);
      found.slopes.push_back(1 - part * part);
    }
    found.weights.push_back(score);
  }
  const double largest = *std::ranges::max_element(found.weights);
  double sum = 0;
  for (double& weight : found.weights) sum += weight = std::exp(weight - largest);
  for (double& weight : found.weights) weight = tape_.rounded(weight / sum);
  return found;
}

void HeadWalk::look_back(Node& x, const double* slope, const Look& seen) {
  const std::int64_t size = c_.head_size;
  const auto part = [this](std::int64_t t) { return q_.ways.key_parts[at(t)]; };
  Values d(seen.weights.size());
  for (std::size_t j = 0; j < d.size(); ++j)
    d[j] = tape_.rounded(tape_.dot(slope, x.value.data() + seen.rows[j] + seen.value, size));
  const double mean = std::inner_product(d.begin(), d.end(), seen.weights.begin(), 0.0);
  for (std::size_t j = 0; j < d.size(); ++j) {
    const double capped = seen.slopes.empty() ? 1 : seen.slopes[j];
    const double score = tape_.rounded(seen.weights[j] * (d[j] - mean)) * capped * q_.ways.score_factor * score_scale(c_);
    for (std::int64_t k = 0; k < size; ++k) {
      const std::size_t from = at(seen.query + k), to = at(seen.rows[j] + seen.key + k);
      x.slope[from] += score * x.value[to];
      if (!q_.ways.key_parts.empty() && part(seen.out / q_width_) != part(seen.rows[j] / width())) continue;
      x.slope[to] += score * x.value[from];
      x.slope[at(seen.rows[j] + seen.value + k)] += seen.weights[j] * slope[k];
    }
  }
}

}  // namespace lockstep::lab::against
