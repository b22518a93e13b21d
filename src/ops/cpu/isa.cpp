#include "ops/cpu/isa.h"

#include <fmt/core.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "device/cpu/processor.h"

namespace lockstep::ops {

namespace {

struct IsaRow {
  Isa isa;
  std::string_view name;
};
constexpr std::array<IsaRow, 7> isa_table{{{Isa::automatic, "auto"},
                                           {Isa::baseline, "baseline"},
                                           {Isa::avx2, "avx2"},
                                           {Isa::avx512, "avx512"},
                                           {Isa::avx512_bf16, "avx512_bf16"},
                                           {Isa::amx, "amx"},
                                           {Isa::neon, "neon"}}};

// One mutex for Highway's one dispatch state.
std::mutex& dispatch_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Highway is asked once. Each time that it is asked, it sets the target that dispatch takes in all threads, even inside a
// ScopedIsa.
std::int64_t supported_targets() {
  static const std::int64_t targets = hwy::SupportedTargets();
  return targets;
}

std::int64_t highway_targets(Isa isa) {
  switch (isa) {
    case Isa::avx512:
    case Isa::avx512_bf16:
    case Isa::amx:
      return HWY_AVX3;
    case Isa::avx2:
      return HWY_AVX2;
    default:
      return HWY_STATIC_TARGET;
  }
}

}  // namespace

std::string_view name_of(Isa isa) { return isa_table[static_cast<std::size_t>(isa)].name; }

Isa isa_from_name(std::string_view name) {
  const auto* row = std::ranges::find(isa_table, name, &IsaRow::name);
  if (row == isa_table.end())
    throw UserError(fmt::format("instruction set '{}' is not known", name),
                    "choose auto, baseline, avx2, avx512, avx512_bf16, amx or neon");
  return row->isa;
}

std::vector<Isa> available_isas() {
  if constexpr (HWY_ARCH_ARM_A64 != 0) return {Isa::neon};
  const std::int64_t supported = supported_targets();
  std::vector<Isa> isas;
  if ((supported & HWY_AVX3) != 0) {
    if (lockstep::cpu::multiplies_bf16_tiles()) isas.push_back(Isa::amx);
    if (lockstep::cpu::multiplies_bf16_pairs()) isas.push_back(Isa::avx512_bf16);
    isas.push_back(Isa::avx512);
  }
  if ((supported & HWY_AVX2) != 0) isas.push_back(Isa::avx2);
  isas.push_back(Isa::baseline);
  return isas;
}

std::string_view name_of(Bf16Order order) {
  constexpr std::array<std::string_view, 4> names{"auto", "widened", "pairs", "amx"};
  return names.at(static_cast<std::size_t>(order));
}

Bf16Order bf16_order_from_name(std::string_view name) {
  for (const Bf16Order order : {Bf16Order::automatic, Bf16Order::widened, Bf16Order::pairs, Bf16Order::amx})
    if (name_of(order) == name) return order;
  throw UserError(fmt::format("'{}' is no order of bf16 products", name), "choose auto, widened, pairs or amx");
}

Bf16Order bf16_order_for(bool of_amd, Isa best) {
  if (best == Isa::amx) return Bf16Order::amx;
  return of_amd && best == Isa::avx512_bf16 ? Bf16Order::pairs : Bf16Order::widened;
}

Bf16Order usual_bf16_order() { return bf16_order_for(lockstep::cpu::is_made_by_amd(), available_isas().front()); }

bool has_instruction_of(Bf16Order order) {
  const Isa best = available_isas().front();
  if (order == Bf16Order::pairs) return best == Isa::avx512_bf16 || best == Isa::amx;
  return order == Bf16Order::widened || best == Isa::amx;
}

double bf16_multiply_adds() {
  if (has_instruction_of(Bf16Order::amx)) return 16;
  return has_instruction_of(Bf16Order::pairs) ? 2 : 1;
}

Isa resolve(Isa isa) {
  const std::vector<Isa> isas = available_isas();
  if (isa == Isa::automatic) return isas.front();
  if (std::ranges::find(isas, isa) == isas.end())
    throw UserError(fmt::format("numerics.isa={}: this processor has no {}", name_of(isa), name_of(isa)),
                    fmt::format("numerics.isa=auto takes the best it has ({})", name_of(isas.front())));
  return isa;
}

namespace cpu {

ScopedIsa::ScopedIsa(Isa isa) : lock_(dispatch_mutex(), std::defer_lock) {
  const std::int64_t targets = highway_targets(resolve(isa));
  lock_.lock();
  hwy::GetChosenTarget().Update(targets);
}

ScopedIsa::~ScopedIsa() { hwy::GetChosenTarget().Update(supported_targets()); }

}  // namespace cpu
}  // namespace lockstep::ops
