#include "train/divergence.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "comm/text.h"

namespace lockstep::train {
namespace {

// Index of the first value whose exponent is all ones: an infinity or no number.
template <class Bits>
std::optional<std::int64_t> first_with(std::span<const std::byte> bytes, Bits exponent) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    if ((bits & exponent) == exponent) return static_cast<std::int64_t>(at / sizeof(Bits));
  }
  return std::nullopt;
}

std::optional<std::int64_t> first_not_finite(const Tensor& piece) {
  const std::span<const std::byte> bytes = elements<std::byte>(piece);
  if (piece.dtype == DType::bf16) return first_with<std::uint16_t>(bytes, 0x7f80);
  return first_with<std::uint32_t>(bytes, 0x7f800000);
}

std::string name_at(const layout::Unit& unit, std::int64_t element) {
  for (const layout::PlacedParameter& placed : unit.parameters) {
    if (element >= placed.offset && element < placed.offset + placed.shape().elements()) return placed.info.name;
  }
  return {};
}

// Of this rank's tensors that `member` says.
std::string first_of(Engine& engine, const parallel::TrainingState::Use& use, Tensor parallel::StateRange::* member) {
  parallel::TrainingState& state = engine.state();
  std::string name;
  state.for_each(use, [&](const parallel::StateRange& range) {
    const Tensor& values = range.*member;
    if (!name.empty() || values.data == nullptr) return;
    engine.pieces().read(values, [&](const Tensor& piece, std::int64_t first) {
      const std::optional<std::int64_t> at = name.empty() ? first_not_finite(piece) : std::nullopt;
      if (at) name = name_at(state.units()[static_cast<std::size_t>(range.unit.value)], range.range.first + first + *at);
    });
  });
  for (std::string& text : comm::all_texts(engine.groups().all(), name)) {
    if (!text.empty()) return std::move(text);
  }
  return {};
}

}  // namespace

std::string first_weight_not_finite(Engine& engine) { return first_of(engine, {}, &parallel::StateRange::master); }

std::string first_gradient_not_finite(Engine& engine) {
  return first_of(engine, {.gradients = true}, &parallel::StateRange::gradient);
}

}  // namespace lockstep::train
