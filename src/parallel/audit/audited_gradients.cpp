#include "parallel/audit/audited_gradients.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "io/checksum.h"

namespace lockstep::parallel {
namespace {

std::int64_t sum_of(const Tensor& tensor, std::int64_t first) {
  return static_cast<std::int64_t>(
      io::checksum({tensor.data, tensor.bytes()}, size_of(tensor.dtype), static_cast<std::uint64_t>(first)));
}

}  // namespace

void AuditMemory::declare(Arena& arena, const std::vector<layout::Unit>& units, const GradientWork& work) {
  of_units.assign(units.size(), -1);
  std::vector<std::int64_t> elements;
  int shared = -1;
  for (const UnitIndex unit : work.order) {
    const auto u = static_cast<std::size_t>(unit.value);
    const bool apart = !work.units_in_turn || (work.tied && work.tied->unit == unit);
    if (!apart && shared >= 0) {
      of_units[u] = shared;
    } else {
      of_units[u] = static_cast<int>(elements.size());
      elements.push_back(0);
      if (!apart) shared = of_units[u];
    }
    std::int64_t& most = elements[static_cast<std::size_t>(of_units[u])];
    most = std::max(most, units[u].elements);
  }
  places.resize(elements.size());
  for (std::size_t i = 0; i < places.size(); ++i) arena.declare(places[i], "audited gradients", Shape{elements[i]}, DType::f32);
}

AuditedGradients::AuditedGradients(GradientStore& whole, const AuditMemory& memory, const std::vector<layout::Unit>& units,
                                   const arch::UnitMap& map, ops::Ops& ops)
    : whole_(whole), memory_(memory), units_(units), ops_(ops), table_(held_table(units, map)), open_(units.size()) {
  for (const layout::Unit& unit : units) {
    first_.push_back(names_.size());
    for (const layout::PlacedParameter& placed : unit.parameters) names_.push_back(placed.info.name);
  }
  names_.emplace_back("the token table's rows");
  own_.resize(names_.size());
  again_.resize(names_.size());
}

void AuditedGradients::listen(Passes passes, const Tensor& tokens) {
  passes_ = passes;
  tokens_ = tokens;
  rows_ = {};
  if (passes != Passes::plain) std::ranges::fill(of(passes), 0);
}

std::vector<std::int64_t>& AuditedGradients::sums(Passes passes) {
  sum_rows();
  passes_ = Passes::plain;
  return of(passes);
}

OpenGradient AuditedGradients::open(UnitIndex unit, Microbatch microbatch) {
  const auto u = static_cast<std::size_t>(unit.value);
  OpenGradient opened;
  if (passes_ == Passes::again) {
    opened.flat = memory_.places[static_cast<std::size_t>(memory_.of_units[u])].flat(0, units_[u].elements);
  } else {
    opened = whole_.open(unit, microbatch);
  }
  if (microbatch.value == 0) open_[u] = opened.flat;
  return opened;
}

Tensor AuditedGradients::open_rows(Microbatch microbatch) {
  if (passes_ == Passes::plain) return whole_.open_rows(microbatch);
  sum_rows();  // before another micro-batch is added to them
  if (table_->tied) {
    const Tensor rows = whole_.open_rows(microbatch);
    if (microbatch.value == 0) rows_ = rows;
    return rows;
  }
  if (passes_ == Passes::own) return whole_.open_rows(microbatch);
  const Tensor rows =
      open_[static_cast<std::size_t>(table_->unit.value)].flat(table_->offset, table_->shape.elements()).reshape(table_->shape);
  ops_.elementwise().zero(rows);
  return rows;
}

void AuditedGradients::sum_rows() {
  if (!rows_) return;
  for (const std::int32_t token : elements<const std::int32_t>(tokens_)) {
    const std::int64_t row = token - table_->first_token;
    if (row >= 0 && row < rows_.rows()) of(passes_).back() += sum_of(rows_.slice_rows(row, 1), row * rows_.columns());
  }
  rows_ = {};
}

void AuditedGradients::close(UnitIndex unit, Microbatch microbatch) {
  const auto u = static_cast<std::size_t>(unit.value);
  if (passes_ != Passes::plain && microbatch.value == 0) {
    for (std::size_t p = 0; p < units_[u].parameters.size(); ++p) {
      const layout::PlacedParameter& placed = units_[u].parameters[p];
      of(passes_)[first_[u] + p] = sum_of(open_[u].flat(placed.offset, placed.shape().elements()), 0);
    }
  }
  if (passes_ != Passes::again) whole_.close(unit, microbatch);
}

}  // namespace lockstep::parallel
