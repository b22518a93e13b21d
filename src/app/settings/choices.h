#pragma once

// The words of the choices among settings, and the forms of other texts, where no lower layer has them.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/settings/run_config.h"
#include "arch/adapter.h"
#include "base/values/choice.h"
#include "ops/cpu/options.h"

namespace lockstep {

template <>
struct Choice<app::BackendKind> {
  using enum app::BackendKind;
  static constexpr auto all = std::to_array<Named<app::BackendKind>>({{"DDP", ddp},
                                                                      {"FSDP", fsdp},
                                                                      {"zero1", zero1},
                                                                      {"zero2", zero2},
                                                                      {"zero3", zero3},
                                                                      {"deepspeed", deepspeed},
                                                                      {"ds", ds},
                                                                      {"ps", ps}});
};
template <>
struct Choice<DeviceKind> {
  static constexpr auto all = std::to_array<Named<DeviceKind>>({{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}});
};
template <>
struct Choice<app::SpeltDType> {
  static constexpr auto all = std::to_array<Named<app::SpeltDType>>({{"float32", {DType::f32, false}},
                                                                     {"fp32", {DType::f32, true}},
                                                                     {"bfloat16", {DType::bf16, false}},
                                                                     {"bf16", {DType::bf16, true}}});
};
template <>
struct Choice<DType> {
  static constexpr auto all = std::to_array<Named<DType>>({{"fp32", DType::f32}, {"bf16", DType::bf16}});
};
template <>
struct Choice<app::GlobalBatch> {
  using enum app::GlobalBatch;
  static constexpr auto all = std::to_array<Named<app::GlobalBatch>>({{"keep", keep}, {"new", renew}});
};

template <>
struct Choice<app::Activation> {
  using enum arch::ActivationKind;
  static constexpr auto all = std::to_array<Named<app::Activation>>({{"gelu", {gelu, false}},
                                                                     {"gelu_tanh", {gelu_tanh, false}},
                                                                     {"relu", {relu, false}},
                                                                     {"silu", {silu, false}},
                                                                     {"swiglu", {silu, true}},
                                                                     {"geglu", {gelu_tanh, true}}});
};
template <>
struct Choice<arch::InitKind> {
  using enum arch::InitKind;
  static constexpr auto all =
      std::to_array<Named<arch::InitKind>>({{"gpt2", gpt2}, {"pytorch", pytorch}, {"small", small}, {"smaller", smaller}});
};
template <>
struct Choice<arch::NormKind> {
  using enum arch::NormKind;
  static constexpr auto all = std::to_array<Named<arch::NormKind>>({{"layernorm", layernorm}, {"rmsnorm", rmsnorm}});
};
template <>
struct Choice<arch::PositionKind> {
  using enum arch::PositionKind;
  static constexpr auto all = std::to_array<Named<arch::PositionKind>>({{"learned", learned}, {"rope", rope}});
};
template <>
struct Choice<arch::RopeScaling> {
  using enum arch::RopeScaling;
  static constexpr auto all = std::to_array<Named<arch::RopeScaling>>(
      {{"none", none}, {"linear", linear}, {"dynamic", dynamic}, {"llama3", llama3}, {"yarn", yarn}, {"longrope", longrope}});
};

template <>
struct Choice<data::Order> {
  static constexpr auto all =
      std::to_array<Named<data::Order>>({{"random", data::Order::random}, {"partition", data::Order::partition}});
};
template <>
struct Choice<app::EpochEnd> {
  using enum app::EpochEnd;
  static constexpr auto all = std::to_array<Named<app::EpochEnd>>({{"drop", drop}, {"pad", pad}});
};
template <>
struct Choice<app::DataShards> {
  using enum app::DataShards;
  static constexpr auto all = std::to_array<Named<app::DataShards>>({{"global", global}, {"precut", precut}});
};
template <>
struct Choice<app::DataIo> {
  using enum app::DataIo;
  static constexpr auto all = std::to_array<Named<app::DataIo>>({{"files", files}, {"mpi", mpi}, {"readers", readers}});
};

template <>
struct Choice<train::Rounding> {
  using enum train::Rounding;
  static constexpr auto all = std::to_array<Named<train::Rounding>>({{"nearest", nearest}, {"stochastic", stochastic}});
};
template <>
struct Choice<train::LrSchedule::Kind> {
  using enum train::LrSchedule::Kind;
  static constexpr auto all = std::to_array<Named<train::LrSchedule::Kind>>(
      {{"wordplay", wordplay}, {"nanogpt", nanogpt}, {"cosine", cosine}, {"linear", linear}, {"wsd", wsd}});
};
template <>
struct Choice<arch::DecayRule> {
  static constexpr auto all =
      std::to_array<Named<arch::DecayRule>>({{"matrices", arch::DecayRule::matrices}, {"all", arch::DecayRule::all}});
};
template <>
struct Choice<app::LrScaling> {
  using enum app::LrScaling;
  static constexpr auto all = std::to_array<Named<app::LrScaling>>({{"none", none}, {"sqrt", sqrt}, {"linear", linear}});
};

template <>
struct Choice<train::ServerMode> {
  using enum train::ServerMode;
  static constexpr auto all =
      std::to_array<Named<train::ServerMode>>({{"gradients", gradients}, {"weights", weights}, {"async", async}});
};

template <>
struct Choice<ops::Isa> {
  using enum ops::Isa;
  static constexpr auto all = std::to_array<Named<ops::Isa>>({{"auto", automatic},
                                                              {"baseline", baseline},
                                                              {"avx2", avx2},
                                                              {"avx512", avx512},
                                                              {"avx512_bf16", avx512_bf16},
                                                              {"amx", amx},
                                                              {"neon", neon}});
};
template <>
struct Choice<ops::Products> {
  using enum ops::Products;
  static constexpr auto all = std::to_array<Named<ops::Products>>({{"ours", ours}, {"library", library}});
};
template <>
struct Choice<ops::Bf16Order> {
  using enum ops::Bf16Order;
  static constexpr auto all =
      std::to_array<Named<ops::Bf16Order>>({{"auto", automatic}, {"widened", widened}, {"pairs", pairs}, {"amx", amx}});
};
template <>
struct Choice<app::MaskKernel> {
  using enum app::MaskKernel;
  static constexpr auto all = std::to_array<Named<app::MaskKernel>>({{"computed", computed}, {"stored", stored}});
};
template <>
struct Choice<app::ProductKernel> {
  using enum app::ProductKernel;
  static constexpr auto all = std::to_array<Named<app::ProductKernel>>({{"best", best}, {"plain", plain}});
};
template <>
struct Choice<app::AdamWKernel> {
  using enum app::AdamWKernel;
  static constexpr auto all = std::to_array<Named<app::AdamWKernel>>({{"fused", fused}, {"tensor", tensor}});
};
template <>
struct Choice<app::NormKernel> {
  using enum app::NormKernel;
  static constexpr auto all = std::to_array<Named<app::NormKernel>>({{"fused", fused}, {"plain", plain}});
};
template <>
struct Choice<app::AttentionKernel> {
  using enum app::AttentionKernel;
  static constexpr auto all = std::to_array<Named<app::AttentionKernel>>({{"tiled", tiled}, {"materialised", materialised}});
};
template <>
struct Choice<train::LogStyle> {
  using enum train::LogStyle;
  static constexpr auto all = std::to_array<Named<train::LogStyle>>({{"plain", plain}, {"wordplay", wordplay}, {"rasbt", rasbt}});
};
template <>
struct Choice<app::CopiesTo> {
  using enum app::CopiesTo;
  static constexpr auto all = std::to_array<Named<app::CopiesTo>>({{"none", none}, {"neighbour", neighbour}});
};
template <>
struct Choice<app::WandbMode> {
  using enum app::WandbMode;
  static constexpr auto all = std::to_array<Named<app::WandbMode>>({{"off", off}, {"offline", offline}});
};

template <>
struct Form<app::Targets> {
  static constexpr std::string_view rule = "all, attention or mlp, or some of q,k,v,o,gate,up,down with commas between",
                                    remedy = "adapter.targets=all";
  static std::optional<app::Targets> read(std::string_view text);
  static std::string print(const app::Targets& targets) { return arch::words_of(targets.set); }
};
template <>
struct Form<app::Factors> {
  static constexpr std::string_view rule = "numbers above 0 with commas between, one for each pair of a head's features",
                                    remedy = "model.rope_short_factors=1,1.05,1.1";
  static std::optional<app::Factors> read(std::string_view text);
  static std::string print(const app::Factors& factors);
};
template <>
struct Form<app::InitFrom> {
  static constexpr std::string_view rule = "", remedy = "";  // every text is one
  static std::optional<app::InitFrom> read(std::string_view text);
  static std::string print(const app::InitFrom& from) { return from.text; }
};
template <>
struct Form<app::SampleEvery> {
  static constexpr std::string_view rule = "evaluations, or epochs:N, N epochs from 1 on",
                                    remedy = "sample.every=epochs:1 for a text after every epoch";
  static std::optional<app::SampleEvery> read(std::string_view text);
  static std::string print(const app::SampleEvery& every);
};
template <>
struct Form<app::ByteCount> {
  static constexpr std::string_view rule = "a number of bytes, such as 4GiB or 800MiB",
                                    remedy = "memory.limit=4GiB, or null for no limit";
  static std::optional<app::ByteCount> read(std::string_view text);
  static std::string print(const app::ByteCount& count) { return count.text; }
};
}  // namespace lockstep
