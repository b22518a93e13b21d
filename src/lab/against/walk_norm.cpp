#include "lab/against/walk_norm.h"

#include <numeric>

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

}  // namespace

Node& normalise(const Question& question, Tape& tape, Node& x, const std::vector<NormedColumns>& columns, bool centred) {
  const std::int64_t rows = question.batch.columns;
  const std::vector<Segment> segments = segments_of(rows, std::ssize(x.value) / rows, columns);
  const double offset = question.config.unit_offset ? 1 : 0;
  Values unit = x.value, scales;
  for (const Segment& segment : segments) {
    double* row = unit.data() + segment.first;
    const auto n = static_cast<double>(segment.size());
    const double mean = centred ? std::accumulate(row, row + segment.size(), 0.0) / n : 0;
    double squares = 0;
    for (std::size_t j = 0; j < segment.size(); ++j) row[j] -= mean, squares += row[j] * row[j];
    scales.push_back(1 / std::sqrt(squares / n + static_cast<double>(question.config.norm_eps)));
    for (std::size_t j = 0; j < segment.size(); ++j) row[j] *= scales.back();
  }
  tape.round(unit);
  Node& y = tape.make(unit);
  for (const Segment& segment : segments) {
    const auto& [gain, bias] = std::pair(segment.columns.gain, segment.columns.bias);
    for (std::size_t j = 0, i = segment.first; j < segment.size(); ++j, ++i)
      y.value[i] = unit[i] * (gain->value[j] + offset) + (bias == nullptr ? 0 : bias->value[j]);
  }
  tape.round(y.value);
  tape.then(y, [=, &question, &tape, &x, &y, unit = std::move(unit), scales = std::move(scales)] {
    Values slope = y.slope;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const Segment& segment = segments[s];
      const auto& [gain, bias] = std::pair(segment.columns.gain, segment.columns.bias);
      const bool counts = counts_position(question, tape, segment.row);
      const auto n = static_cast<double>(segment.size());
      double sum = 0, dot = 0;
      for (std::size_t j = 0, i = segment.first; j < segment.size(); ++j, ++i) {
        if (counts) tape.add(gain->slope[j], y.slope[i] * unit[i]);
        if (counts && bias != nullptr) tape.add(bias->slope[j], y.slope[i]);
        sum += centred ? y.slope[i] * (gain->value[j] + offset) / n : 0;
        dot += y.slope[i] * (gain->value[j] + offset) * unit[i] / n;
      }
      for (std::size_t j = 0, i = segment.first; j < segment.size(); ++j, ++i)
        slope[i] = scales[s] * (y.slope[i] * (gain->value[j] + offset) - sum - unit[i] * dot);
    }
    for (std::size_t i = 0; i < slope.size(); ++i) x.slope[i] += slope[i];
  });
  return y;
}

}  // namespace lockstep::lab::against
