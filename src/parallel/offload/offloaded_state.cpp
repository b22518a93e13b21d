#include "parallel/offload/offloaded_state.h"

#include <algorithm>

namespace lockstep::parallel {
namespace {

using Kind = OffloadColumn::Kind;

bool asked_for(const OffloadColumn& column, const TrainingState::Use& use) {
  if (column.kind == Kind::gradients) return use.gradients;
  return column.kind == Kind::slot ? use.slots : use.weights;
}

}  // namespace

class OffloadedState::AtRest {
 public:
  explicit AtRest(OffloadedState& state) : state_(state) {}
  AtRest(const AtRest&) = delete;
  AtRest& operator=(const AtRest&) = delete;
  ~AtRest() {
    for (Buffer& buffer : state_.buffers_) {
      for (Spill::Move& move : buffer.moves) state_.memory_.spill->abandon(move);
    }
  }

 private:
  OffloadedState& state_;
};

OffloadedState::OffloadedState(const ResidentParts& parts, const OffloadMemory& memory)
    : ResidentState(parts), memory_(memory), brought_(parts.slots.names.size()) {
  for (Buffer& buffer : buffers_) buffer.moves.resize(memory.columns.size());
}

bool OffloadedState::stays(const Use& use) const {
  return std::ranges::none_of(memory_.columns, [&](const OffloadColumn& column) { return asked_for(column, use); });
}

void OffloadedState::visit(const Use& use, Call call, void* body) {
  if (stays(use)) return visit_memory(use, call, body);
  const std::vector<OffloadRecord>& records = memory_.records;
  const auto following = [&](std::size_t i) {
    while (i < records.size() && !is_visited(records[i].unit, use)) ++i;
    return i;
  };
  {
    const AtRest at_rest(*this);
    std::size_t place = 0;
    const std::size_t first = following(0);
    if (first < records.size()) bring(buffers_[place], place, records[first], use);
    for (std::size_t i = first; i < records.size(); i = following(i + 1)) {
      const std::size_t after = following(i + 1), next = (place + 1) % OffloadMemory::buffer_count;
      if (after < records.size()) bring(buffers_[next], next, records[after], use);
      arrive(buffers_[place]);
      call(body, range_in(place, records[i], use));
      if (use.changes) put_away(buffers_[place]);
      place = next;
    }
    for (Buffer& buffer : buffers_) arrive(buffer);  // what is written, too
  }
  if (use.changes) changed(use);
}

void OffloadedState::bring(Buffer& buffer, std::size_t place, const OffloadRecord& record, const Use& use) {
  const std::int64_t first = memory_.cut.held(units()[static_cast<std::size_t>(record.unit.value)]).first;
  for (std::size_t c = 0; c < memory_.columns.size(); ++c) {
    const OffloadColumn& column = memory_.columns[c];
    memory_.spill->finish(buffer.moves[c]);
    buffer.moves[c] = {};
    const int number = column.numbers[static_cast<std::size_t>(record.unit.value)];
    if (!asked_for(column, use) || number < 0) continue;
    const Mirror to = Spill::part(memory_.buffers[place], column.first, Spill::bytes_of(record.range.count, column.type));
    buffer.moves[c] = memory_.spill->read(number, {record.range.first - first, record.range.count}, to);
  }
}

void OffloadedState::arrive(Buffer& buffer) {
  for (Spill::Move& move : buffer.moves) memory_.spill->finish(move);
}

void OffloadedState::put_away(Buffer& buffer) {
  for (std::size_t c = 0; c < memory_.columns.size(); ++c) {
    Spill::Move& move = buffer.moves[c];
    if (move.number < 0 || memory_.columns[c].kind == Kind::gradients) continue;
    move = memory_.spill->write(move.number, move.elements, move.memory);
  }
}

StateRange OffloadedState::range_in(std::size_t place, const OffloadRecord& record, const Use& use) {
  StateRange range = range_in_memory(record.unit, use, record.range);
  const std::int64_t count = record.range.count;
  const bool trained = units()[static_cast<std::size_t>(record.unit.value)].trained;
  if (use.slots && has_slots() && trained) {
    const std::int64_t first = memory_.cut.held(units()[static_cast<std::size_t>(record.unit.value)]).first;
    std::ranges::transform(slots_of(record.unit), brought_.begin(),
                           [&](const Tensor& slot) { return slot.flat(record.range.first - first, count); });
  }
  for (std::size_t c = 0; c < memory_.columns.size(); ++c) {
    const OffloadColumn& column = memory_.columns[c];
    if (!asked_for(column, use) || column.numbers[static_cast<std::size_t>(record.unit.value)] < 0) continue;
    const Tensor bytes = Spill::part(memory_.buffers[place], column.first, Spill::bytes_of(count, column.type)).device;
    const Tensor values = typed(bytes, 0, count, column.type);
    if (column.kind == Kind::weights) range.published = values;
    if (column.kind == Kind::weights && (column.type == type() || !trained) && !range.master) range.master = values;
    if (column.kind == Kind::masters) range.master = values;
    if (column.kind == Kind::gradients) range.gradient = values;
    if (column.kind == Kind::slot) brought_[column.slot] = values;
  }
  if (use.slots && trained) {
    range.slots = brought_;
    range.own_slots = range.own;
  }
  return range;
}

}  // namespace lockstep::parallel
