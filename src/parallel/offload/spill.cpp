#include "parallel/offload/spill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/timer.h"
#include "base/units.h"
#include "io/checksum.h"

namespace lockstep::parallel {
namespace {

std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

}  // namespace

Tensor typed(const Tensor& bytes, std::int64_t first, std::int64_t count, DType type) {
  Tensor tensor = bytes.flat(first, count * static_cast<std::int64_t>(size_of(type)));
  tensor.shape = Shape{count};
  tensor.dtype = type;
  return tensor;
}

int Spill::declare(const Needs& needs) {
  ensure(needs.tier != layout::Tier::device && needs.range > 0, "what is offloaded lies elsewhere, in ranges");
  Placed placed{needs};
  std::int64_t& end = bytes_[on_disk(placed) ? 0 : 1];
  placed.offset = end;
  placed.checks.resize(static_cast<std::size_t>(div_up(needs.elements, needs.range)));
  const bool whole = needs.range * static_cast<std::int64_t>(size_of(needs.type)) % block == 0;
  ensure(placed.checks.size() <= 1 || whole, "ranges end in whole blocks");
  end += bytes_of(needs.elements, needs.type);
  tensors_.push_back(std::move(placed));
  return narrow<int>(tensors_.size()) - 1;
}

std::int64_t Spill::bytes_of(std::string_view what) const {
  std::int64_t bytes = 0;
  for (const Placed& tensor : tensors_) bytes += tensor.what == what ? bytes_of(tensor.elements, tensor.type) : 0;
  return bytes;
}

void Spill::declare_host(Arena& pinned) {
  if (bytes_[1] > 0) pinned.declare(kept_, "offloaded", Shape{bytes_[1]}, DType::u8);
}

void Spill::declare(Arena& arena, Mirror& out, std::string name, std::int64_t bytes) {
  // Files are read into whole blocks of memory; an arena aligns to less.
  arena.declare(out, std::move(name), Shape{bytes + block}, DType::u8);
}

Mirror Spill::part(const Mirror& declared, std::int64_t first, std::int64_t bytes) {
  const auto misfit = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(declared.host.data)) % block;
  return declared.flat((misfit == 0 ? 0 : block - misfit) + first, bytes);
}

void Spill::open(const OffloadOptions& options, Stream& stream) {
  options_ = options;
  stream_ = &stream;
  if (bytes_[0] > 0) file_.emplace(options.folder, static_cast<std::uint64_t>(bytes_[0]), options.ways);
}

std::string Spill::description() const {
  std::string text;
  if (file_) text = fmt::format("{} in a file in {}, by {}", bytes_text(bytes_[0]), options_.folder.string(), file_->way());
  if (bytes_[1] > 0) text += fmt::format("{}{} in the host's memory", text.empty() ? "" : "; ", bytes_text(bytes_[1]));
  return text;
}

layout::Range Spill::cover(int number, const layout::Range& elements) const {
  const Placed& tensor = tensors_[static_cast<std::size_t>(number)];
  const std::int64_t first = elements.first / tensor.range * tensor.range;
  return {first, std::min(tensor.elements, round_up(elements.end(), tensor.range)) - first};
}

Tensor Spill::in_host(const Move& move) const {
  const Placed& tensor = tensors_[static_cast<std::size_t>(move.number)];
  return kept_.flat(tensor.offset + bytes_of(move.elements.first, tensor.type), move.memory.device.elements());
}

Spill::Move Spill::begin(int number, const layout::Range& elements, const Mirror& memory, bool writes) {
  const Placed& tensor = tensors_[static_cast<std::size_t>(number)];
  const std::int64_t bytes = bytes_of(elements.count, tensor.type);
  ensure(stream_ != nullptr, "what is offloaded is opened before it is moved");
  ensure(elements.count > 0 && cover(number, elements) == elements, "whole ranges are moved");
  (writes ? traffic_.written : traffic_.read) += bytes;
  return {.number = number,
          .elements = elements,
          .memory = memory.flat(0, bytes),
          .writes = writes,
          .under_way = true,
          .in_file = {},
          .begun = spans_ != nullptr ? now_seconds() : 0};
}

template <class Check>
void Spill::for_each_range(const Move& move, const Check& check) {
  Placed& tensor = tensors_[static_cast<std::size_t>(move.number)];
  const auto size = static_cast<std::int64_t>(size_of(tensor.type));
  for (std::int64_t first = 0; first < move.elements.count; first += tensor.range) {
    const layout::Range range{move.elements.first + first, std::min(tensor.range, move.elements.count - first)};
    const Tensor values = move.memory.host.flat(first * size, range.count * size);
    check(tensor, range, io::checksum(elements<std::byte>(values), static_cast<std::size_t>(size), 0));
  }
}

Spill::Move Spill::read(int number, const layout::Range& elements, const Mirror& memory) {
  Move move = begin(number, elements, memory, false);
  const Placed& tensor = tensors_[static_cast<std::size_t>(number)];
  if (!on_disk(tensor)) {
    copy(*stream_, move.memory.device, in_host(move));
    return move;
  }
  settle(*stream_, move.memory);
  const bool written = tensor.checks[tensor.range_of(elements.first)].has_value();
  for (std::size_t r = tensor.range_of(elements.first); r <= tensor.range_of(elements.end() - 1); ++r)
    ensure(tensor.checks[r].has_value() == written, "what is read together was written, or nothing of it");
  if (written) {
    const std::int64_t offset = tensor.offset + bytes_of(elements.first, tensor.type);
    move.in_file = file_->begin_read(static_cast<std::uint64_t>(offset), lockstep::elements<std::byte>(move.memory.host));
  } else {
    std::memset(move.memory.host.data, 0, move.memory.host.bytes());
  }
  return move;
}

Spill::Move Spill::write(int number, const layout::Range& elements, const Mirror& memory) {
  Move move = begin(number, elements, memory, true);
  const Placed& tensor = tensors_[static_cast<std::size_t>(number)];
  if (!on_disk(tensor)) {
    copy(*stream_, in_host(move), move.memory.device);
    return move;
  }
  download(*stream_, move.memory);
  for_each_range(move,
                 [](Placed& of, const layout::Range& range, std::uint64_t sum) { of.checks[of.range_of(range.first)] = sum; });
  const std::int64_t offset = tensor.offset + bytes_of(elements.first, tensor.type);
  move.in_file = file_->begin_write(static_cast<std::uint64_t>(offset), lockstep::elements<std::byte>(move.memory.host));
  return move;
}

void Spill::finish(Move& move) {
  if (!move.under_way) return;
  move.under_way = false;  // one that failed is over, too
  const Placed& tensor = tensors_[static_cast<std::size_t>(move.number)];
  if (move.in_file) {
    const std::string_view name = move.writes ? "write" : "read";
    const std::int64_t bytes = move.memory.host.elements();
    {
      const ScopedTime waited(traffic_.waited);
      const ScopedSpan span(spans_, SpanKind::waiting, move.writes ? "disk write" : "disk read", {bytes});
      file_->finish(*move.in_file);
    }
    if (spans_ != nullptr) spans_->add({SpanKind::disk, name, move.begun, now_seconds(), {bytes}});
  }
  if (move.writes || !on_disk(tensor)) return;
  if (move.in_file) {
    for_each_range(move, [&](const Placed& of, const layout::Range& range, std::uint64_t found) {
      const std::uint64_t expected = of.checks[of.range_of(range.first)].value();
      if (found == expected) return;
      throw SystemError(fmt::format(
          "offloaded {} of {}, elements {} to {}: the file in {} gives other bytes than were written (checksum {:016x}, not "
          "{:016x}); the disk or the memory is faulty: resume from the last checkpoint, elsewhere",
          of.what, of.of, of.first + range.first, of.first + range.end(), options_.folder.string(), found, expected));
    });
  }
  upload(*stream_, move.memory);
}

void Spill::abandon(Move& move) noexcept {
  try {
    finish(move);
  } catch (...) {  // the first error is told
  }
}

}  // namespace lockstep::parallel
