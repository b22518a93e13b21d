#pragma once

// Training state that lies elsewhere. A visit brings a range into one of two buffers, and the next range into the other one
// meanwhile. It writes back what was to be changed. Buffers are spoilt between uses, so that what outlives a visit shows.

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "parallel/training_state.h"

namespace lockstep::support {

class BroughtState final : public parallel::TrainingState {
 public:
  /// A copy of `from`, which is f32 without published copies, in `pieces` ranges for each unit.
  BroughtState(parallel::TrainingState& from, int pieces) : units_(from.units()), slots_(from.slots()), pieces_(pieces) {
    from.for_each({.slots = true}, [&](const parallel::StateRange& range) {
      const auto size = static_cast<std::size_t>(range.range.count);
      Kept kept{std::vector<float>(size), std::vector<float>(size), {}};
      copy(kept.weights, range.master);
      for (const Tensor& slot : range.slots) copy(kept.slots.emplace_back(size), slot);
      kept_.push_back(std::move(kept));
    });
  }

  const std::vector<layout::Unit>& units() const override { return units_; }
  const std::vector<std::string>& slots() const override { return slots_; }
  int ranges_of_unit() const override { return pieces_; }
  DType type() const override { return DType::f32; }
  bool stays(const Use& /*use*/) const override { return false; }
  void distribute(std::int64_t /*step*/) override {}
  void gather() override {}
  void check_copies() override {}
  void collect() override {}

  void take_gradients(parallel::TrainingState& from) {
    from.for_each({.gradients = true}, [&](const parallel::StateRange& range) {
      copy(kept_[static_cast<std::size_t>(range.unit.value)].gradient, range.gradient);
    });
  }
  /// Whether weights and slots have the bits of `other`'s.
  bool equals(parallel::TrainingState& other) {
    bool same = true;
    other.for_each({.slots = true}, [&](const parallel::StateRange& range) {
      const Kept& kept = kept_[static_cast<std::size_t>(range.unit.value)];
      same = same && equal(kept.weights, range.master);
      for (std::size_t s = 0; s < range.slots.size(); ++s) same = same && equal(kept.slots[s], range.slots[s]);
    });
    return same;
  }
  std::ptrdiff_t visits() const { return visits_; }

 private:
  struct Kept {
    std::vector<float> weights, gradient;
    std::vector<std::vector<float>> slots;
  };
  /// Where a range is while it is visited.
  struct Buffer {
    std::vector<float> weights, gradient;
    std::vector<std::vector<float>> slots;
    std::vector<Tensor> views;
    parallel::StateRange range;
  };

  static void copy(std::vector<float>& to, const Tensor& from) { std::memcpy(to.data(), from.data, from.bytes()); }
  static bool equal(const std::vector<float>& a, const Tensor& b) { return std::memcmp(a.data(), b.data, b.bytes()) == 0; }
  static Tensor bring(std::vector<float>& to, const std::vector<float>& from, const layout::Range& range) {
    to.assign(from.begin() + range.first, from.begin() + range.end());
    return view(std::span(to), Shape{range.count});
  }

  void fetch(Buffer& buffer, const Use& use, UnitIndex unit, const layout::Range& range) {
    const Kept& kept = kept_[static_cast<std::size_t>(unit.value)];
    buffer.range = {.unit = unit, .range = range, .own = range, .own_slots = range};
    buffer.range.master = buffer.range.published = bring(buffer.weights, kept.weights, range);
    if (use.gradients) buffer.range.gradient = bring(buffer.gradient, kept.gradient, range);
    buffer.slots.resize(slots_.size());
    buffer.views.clear();
    for (std::size_t s = 0; use.slots && s < slots_.size(); ++s)
      buffer.views.push_back(bring(buffer.slots[s], kept.slots[s], range));
    buffer.range.slots = buffer.views;
  }
  void put_away(Buffer& buffer, const Use& use) {
    Kept& kept = kept_[static_cast<std::size_t>(buffer.range.unit.value)];
    const auto put = [&](std::vector<float>& to, std::vector<float>& from) {
      if (use.changes) std::ranges::copy(from, to.begin() + buffer.range.range.first);
      std::ranges::fill(from, std::numeric_limits<float>::quiet_NaN());
    };
    put(kept.weights, buffer.weights);
    for (std::size_t s = 0; use.slots && s < slots_.size(); ++s) put(kept.slots[s], buffer.slots[s]);
  }

  void visit(const Use& use, Call call, void* body) override {
    struct Piece {
      UnitIndex unit;
      layout::Range range;
    };
    std::vector<Piece> order;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (int part = 0; part < pieces_; ++part) {
        const layout::Range range = layout::range_of(units_[u], part, pieces_);
        if (range.count > 0) order.push_back({UnitIndex{static_cast<int>(u)}, range});
      }
    }
    std::array<Buffer, 2> buffers;
    for (std::size_t i = 0; i <= order.size(); ++i) {
      if (i < order.size()) fetch(buffers[i % 2], use, order[i].unit, order[i].range);
      if (i == 0) continue;
      Buffer& current = buffers[(i - 1) % 2];
      call(body, current.range);
      put_away(current, use);
      ++visits_;
    }
  }

  std::vector<layout::Unit> units_;
  std::vector<std::string> slots_;
  int pieces_;
  std::vector<Kept> kept_;
  std::ptrdiff_t visits_ = 0;
};

}  // namespace lockstep::support
