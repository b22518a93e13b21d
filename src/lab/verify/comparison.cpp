#include "lab/verify/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/bfloat16.h"

namespace lockstep::lab {
namespace {

using parallel::StateRange;

/// Values one after another: fp32, or bf16 widened.
class TensorReader {
 public:
  explicit TensorReader(const Tensor& tensor)
      : narrow_(tensor.dtype == DType::bf16), count_(tensor.elements()), data_(tensor.data) {}
  std::int64_t count() const { return count_; }
  float operator[](std::int64_t i) const {
    return narrow_ ? to_float(reinterpret_cast<const BFloat16*>(data_)[i]) : reinterpret_cast<const float*>(data_)[i];
  }

 private:
  bool narrow_;
  std::int64_t count_;
  const std::byte* data_;
};

double squares(const Tensor& tensor) {
  const TensorReader values(tensor);
  double sum = 0;
  for (std::int64_t i = 0; i < values.count(); ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

// The square of a difference; infinite where that is NaN.
double square(double difference) {
  const double result = difference * difference;
  return std::isnan(result) ? std::numeric_limits<double>::infinity() : result;
}

bool same_bits(const Tensor& a, const Tensor& b) { return std::memcmp(a.data, b.data, a.bytes()) == 0; }

}  // namespace

class Comparison::Rank final : public RankObserver {
 public:
  Rank(const RunRecord& record, Going going, int rank, RankFindings& findings)
      : record_(record), going_(going), rank_(rank), findings_(findings) {
    findings_.answered.assign((record.slots.size() + 1) * record.whole.parameters.size(), 0);
  }

  void drawn(parallel::TrainingState& state) override {
    state.for_each({}, [&](const StateRange& range) {
      if (range.master.dtype == record_.drawn.type()) compare(state, range, range.master, range.own, record_.drawn, drawn_at);
    });
    load(record_.whole, record_.start, state);
  }
  void started(parallel::TrainingState& state) override {
    state.for_each({.slots = true}, [&](const StateRange& range) {
      count(state, range, range.master, range.own, record_.slots.size());
      for (std::size_t s = 0; s < range.slots.size(); ++s) count(state, range, range.slots[s], range.own_slots, s);
    });
    readable_ = &record_.start.published;
  }
  bool before(int step, parallel::TrainingState& state) override {
    step_ = step;
    if (going_ == Going::free || step == 0) return false;
    load(record_.whole, record_.before(step), state);
    return true;
  }
  void reads(const layout::Unit& unit, const layout::Part& part, const Tensor& values) override {
    if (readable_ == nullptr) return;
    std::map<Key, Part> parts;
    const auto read = [&](const layout::Range& elements, const Tensor& of) {
      for_each_run(record_.whole, unit, elements, of, {}, [&](const HeldRun& run) {
        compare(run, *readable_, {.quantity = Quantity::read, .step = step_, .parameter = run.parameter}, parts);
      });
    };
    const bool gathered = part.strided() && values.elements() == part.count();  // else its rows lie whole in memory
    if (!gathered) read(part.elements, values);
    const std::int64_t rows = gathered ? part.elements.count / part.row : 0, columns = part.columns.count;
    for (std::int64_t row = 0; row < rows; ++row)
      read({part.elements.first + row * part.row + part.columns.first, columns}, values.flat(row * columns, columns));
    // A step reads the same weights several times.
    for (const auto& [key, found] : parts) {
      Part& worst = findings_.parts.try_emplace(key, found).first->second;
      if (found.held > worst.held) worst = found;
    }
  }
  void reduced(int step, parallel::TrainingState* state, train::StepResult& result) override {
    const RunRecord::Step& record = record_.steps[static_cast<std::size_t>(step)];
    compare(result.loss, record.loss, {.quantity = Quantity::loss, .step = step});
    compare(result.gradient_norm, record.norm, {.quantity = Quantity::norm, .step = step});
    if (state == nullptr) return;
    state->for_each({.gradients = true}, [&](const StateRange& range) {
      compare(*state, range, range.gradient, range.own, record.gradients, {.quantity = Quantity::gradient, .step = step});
      if (going_ == Going::free) return;
      for_each_run(record_.whole, unit_of(*state, range), range.range, range.gradient, range.range, [&](const HeldRun& run) {
        std::memcpy(run.values.data, record.gradients.of(run.parameter, run.first, run.values.elements()).data,
                    run.values.bytes());
      });
    });
    if (going_ == Going::led) result.gradient_norm = record.norm;
  }
  void updated(int step, parallel::TrainingState& state) override {
    const ModelState& after = record_.steps[static_cast<std::size_t>(step)].after;
    state.for_each({.slots = true}, [&](const StateRange& range) {
      compare(state, range, range.master, range.own, after.of(range.master), {.quantity = Quantity::weight, .step = step});
      for (std::size_t s = 0; s < range.slots.size(); ++s) {
        compare(state, range, range.slots[s], range.own_slots, after.slots[s],
                {.quantity = Quantity::slot, .step = step, .slot = static_cast<int>(s)});
      }
    });
    readable_ = &after.published;
    step_ = step + 1;
  }
  void evaluated(double loss) override { compare(loss, record_.evaluated, {.quantity = Quantity::evaluation, .step = step_}); }

 private:
  static constexpr Finding drawn_at{.quantity = Quantity::drawn};
  static Key key_of(const Finding& at) { return {at.step, static_cast<int>(at.quantity), at.slot, at.parameter}; }

  void compare(double value, double expected, Finding at) {
    if (value == expected) return;
    at.rank = rank_;
    at.value = value;
    at.expected = expected;
    findings_.parts[key_of(at)] = {at, square(value - expected), square(value - expected)};
  }
  /// Compares one kind of values of a range. `own`: what this rank answers for.
  void compare(const parallel::TrainingState& state, const StateRange& range, const Tensor& values, const layout::Range& own,
               const WholeValues& expected, Finding at) {
    for_each_run(record_.whole, unit_of(state, range), range.range, values, own, [&](const HeldRun& run) {
      at.parameter = run.parameter;
      compare(run, expected, at, findings_.parts);
    });
  }
  void compare(const HeldRun& run, const WholeValues& all, Finding at, std::map<Key, Part>& parts) {
    const Tensor expected = all.of(run.parameter, run.first, run.values.elements());
    if (same_bits(run.values, expected)) return;
    const TensorReader values(run.values), wanted(expected);
    Part* part = nullptr;
    for (std::int64_t i = 0; i < wanted.count(); ++i) {
      if (std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(wanted[i])) continue;
      if (part == nullptr) {
        at.rank = rank_;
        at.element = run.first + i;
        at.value = static_cast<double>(values[i]);
        at.expected = static_cast<double>(wanted[i]);
        part = &parts.try_emplace(key_of(at), Part{at, 0, 0}).first->second;
      }
      const double difference = square(static_cast<double>(values[i]) - static_cast<double>(wanted[i]));
      part->held += difference;
      if (run.counts) part->counted += difference;
    }
  }
  void count(const parallel::TrainingState& state, const StateRange& range, const Tensor& values, const layout::Range& own,
             std::size_t kind) {
    for_each_run(record_.whole, unit_of(state, range), range.range, values, own, [&](const HeldRun& run) {
      const std::size_t place = kind * record_.whole.parameters.size() + static_cast<std::size_t>(run.parameter);
      if (run.counts) findings_.answered[place] += run.values.elements();
    });
  }

  const RunRecord& record_;
  Going going_;
  int rank_;
  int step_ = 0;
  const WholeValues* readable_ = nullptr;  ///< what leases shall have
  RankFindings& findings_;
};

Comparison::Comparison(const RunRecord& record, Going going, int ranks)
    : record_(record), going_(going), ranks_(static_cast<std::size_t>(ranks)) {}

std::unique_ptr<RankObserver> Comparison::observer(int rank) {
  return std::make_unique<Rank>(record_, going_, rank, ranks_[static_cast<std::size_t>(rank)]);
}

const WholeValues& Comparison::expected(const Finding& finding) const {
  if (finding.quantity == Quantity::drawn) return record_.drawn;
  if (finding.quantity == Quantity::read) return record_.before(finding.step).published;
  const RunRecord::Step& step = record_.steps[static_cast<std::size_t>(finding.step)];
  if (finding.quantity == Quantity::gradient) return step.gradients;
  return finding.quantity == Quantity::weight ? step.after.masters : step.after.slots[static_cast<std::size_t>(finding.slot)];
}

std::vector<Finding> Comparison::findings() const {
  std::map<Key, std::vector<const Part*>> together;
  for (const RankFindings& rank : ranks_) {
    for (const auto& [key, part] : rank.parts) together[key].push_back(&part);
  }
  std::map<const WholeValues*, double> sizes;  // norms of all parameters together
  const auto size_of = [&](const Finding& finding) {
    if (finding.parameter < 0) return std::abs(finding.expected);
    const WholeValues& values = expected(finding);
    const auto [size, missing] = sizes.try_emplace(&values, 0);
    for (int p = 0; missing && p < std::ssize(record_.whole.parameters); ++p) size->second += squares(values.of(p));
    constexpr double least_share = 1e-6;
    return std::max(std::sqrt(squares(values.of(finding.parameter))), least_share * std::sqrt(size->second));
  };
  std::vector<Finding> all;
  for (const auto& [key, parts] : together) {
    const auto worst = std::ranges::max_element(parts, {}, [](const Part* part) { return part->held; });
    double counted = 0;
    for (const Part* part : parts) counted += part->counted;
    if ((*worst)->finding.parameter < 0) counted = 0;  // a number is not divided
    Finding finding = (*worst)->finding;
    const double difference = std::sqrt(std::max(counted, (*worst)->held));
    finding.error = difference == 0 ? 0 : difference / size_of(finding);
    if (!std::isfinite(finding.error)) finding.error = std::numeric_limits<double>::infinity();
    all.push_back(finding);
  }
  return all;
}

std::vector<std::string> Comparison::miscounted() const {
  std::vector<std::string> all;
  const std::size_t parameters = record_.whole.parameters.size();
  for (std::size_t place = 0; place < ranks_.front().answered.size(); ++place) {
    std::int64_t answered = 0;
    for (const RankFindings& rank : ranks_) answered += rank.answered[place];
    const WholeModel::Parameter& parameter = record_.whole.parameters[place % parameters];
    const std::size_t kind = place / parameters;
    const bool kept = parameter.trained || kind == record_.slots.size();
    if (answered == (kept ? parameter.elements : 0)) continue;
    all.push_back(fmt::format("ranks answer for {} of the {} elements of {} of {}", answered, parameter.elements,
                              kind < record_.slots.size() ? record_.slots[kind] : "the weights", parameter.name));
  }
  return all;
}

}  // namespace lockstep::lab
