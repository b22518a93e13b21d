#include "lab/against/walk_norm.h"

#include <numeric>
#include <span>
#include <utility>

namespace lockstep::lab::against {
namespace {

/// What is normalised together: so many columns of a row.
struct Segment {
  std::size_t first;  ///< element of the matrix
  std::int64_t row;
  NormedColumns columns;
  std::size_t size() const { return at(columns.size); }
};

std::vector<Segment> segments_of(std::int64_t rows, std::int64_t width, const std::vector<NormedColumns>& columns) {
  std::vector<Segment> segments;
  for (std::int64_t t = 0; t < rows; ++t) {
    for (const NormedColumns& one : columns) {
      for (std::int64_t g = 0; g < one.groups; ++g) segments.push_back({at(t * width + one.first + g * one.size), t, one});
    }
  }
  return segments;
}

/// What a norm needs on its way back.
struct Normed {
  std::vector<Segment> segments;
  Values unit, scales;  ///< scales: by segment
  double offset;        ///< of gains
  bool centred;
  double less;  ///< as Ways::variance_less
};

Normed normed(const Question& question, const Node& x, std::vector<Segment> segments, bool centred) {
  Normed norm{std::move(segments), x.value, {}, question.config.unit_offset ? 1.0 : 0.0, centred, question.ways.variance_less};
  for (const Segment& segment : norm.segments) {
    const std::span<double> row(norm.unit.data() + segment.first, segment.size());
    const auto n = static_cast<double>(segment.size());
    const double mean = centred ? std::accumulate(row.begin(), row.end(), 0.0) / n : 0;
    double squares = 0;
    for (double& value : row) value -= mean, squares += value * value;
    norm.scales.push_back(1 / std::sqrt(squares / (n - norm.less) + static_cast<double>(question.config.norm_eps)));
    for (double& value : row) value *= norm.scales.back();
  }
  return norm;
}

/// Gradients of a segment's gain and bias.
void add_parameters(Tape& tape, const Normed& norm, const Segment& segment, const Values& slope) {
  const auto& [gain, bias] = std::pair(segment.columns.gain, segment.columns.bias);
  for (std::size_t j = 0, i = segment.first; j < segment.size(); ++j, ++i) {
    tape.add(gain->slope[j], slope[i] * norm.unit[i]);
    if (bias != nullptr) tape.add(bias->slope[j], slope[i]);
  }
}

/// From the slopes of a segment of y to those of x, in place.
void go_back(const Normed& norm, const Segment& segment, double scale, Values& slope) {
  const Values& gain = segment.columns.gain->value;
  const auto n = static_cast<double>(segment.size());
  double sum = 0, dot = 0;
  for (std::size_t j = 0, i = segment.first; j < segment.size(); ++j, ++i) {
    slope[i] *= gain[j] + norm.offset;
    sum += norm.centred ? slope[i] / n : 0;
    dot += slope[i] * norm.unit[i] / (n - norm.less);
  }
  for (std::size_t i = segment.first; i < segment.first + segment.size(); ++i)
    slope[i] = scale * (slope[i] - sum - norm.unit[i] * dot);
}

}  // namespace

Node& normalise(const Question& question, Tape& tape, Node& x, const std::vector<NormedColumns>& columns, bool centred) {
  const std::int64_t rows = question.batch.columns;
  Normed norm = normed(question, x, segments_of(rows, std::ssize(x.value) / rows, columns), centred);
  tape.round(norm.unit);
  Node& y = tape.make(norm.unit);
  for (const Segment& segment : norm.segments) {
    const auto& [gain, bias] = std::pair(segment.columns.gain, segment.columns.bias);
    for (std::size_t j = 0, i = segment.first; j < segment.size(); ++j, ++i)
      y.value[i] = norm.unit[i] * (gain->value[j] + norm.offset) + (bias == nullptr ? 0 : bias->value[j]);
  }
  tape.round(y.value);
  tape.then(y, [&question, &tape, &x, &y, norm = std::move(norm)] {
    Values slope = y.slope;
    for (std::size_t s = 0; s < norm.segments.size(); ++s) {
      if (counts_position(question, tape, norm.segments[s].row)) add_parameters(tape, norm, norm.segments[s], y.slope);
      go_back(norm, norm.segments[s], norm.scales[s], slope);
    }
    for (std::size_t i = 0; i < slope.size(); ++i) x.slope[i] += slope[i];
  });
  return y;
}

}  // namespace lockstep::lab::against
