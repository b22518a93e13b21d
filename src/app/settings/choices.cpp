#include "app/settings/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/number_text.h"
#include "base/units.h"

namespace lockstep {

std::optional<app::InitFrom> Form<app::InitFrom>::read(std::string_view text) {
  using enum app::InitFrom::Kind;
  const app::InitFrom::Kind kind = text == "scratch" ? scratch : text == "resume" ? resume : text == "auto" ? automatic : folder;
  return app::InitFrom{kind, std::string(text)};
}

std::optional<app::Targets> Form<app::Targets>::read(std::string_view text) {
  const std::optional<arch::AdapterTargets> set = arch::adapter_targets(text);
  return set ? std::optional(app::Targets{*set}) : std::nullopt;
}

std::optional<app::Factors> Form<app::Factors>::read(std::string_view text) {
  app::Factors factors;
  for (std::size_t end = 0; end < text.size(); ++end) {
    const std::size_t first = end;
    end = std::min(text.find(',', first), text.size());
    const auto value = number_from<double>(text.substr(first, end - first));
    if (!value || !(*value > 0)) return std::nullopt;
    factors.values.push_back(*value);
  }
  return factors.values.empty() || text.ends_with(',') ? std::nullopt : std::optional(factors);
}

std::string Form<app::Factors>::print(const app::Factors& factors) { return fmt::format("{}", fmt::join(factors.values, ",")); }

std::optional<app::SampleEvery> Form<app::SampleEvery>::read(std::string_view text) {
  constexpr std::string_view epochs = "epochs:";
  if (text == "evaluations") return app::SampleEvery{};
  const auto count = text.starts_with(epochs) ? number_from<std::int64_t>(text.substr(epochs.size())) : std::nullopt;
  return count && *count > 0 ? std::optional(app::SampleEvery{*count}) : std::nullopt;
}

std::string Form<app::SampleEvery>::print(const app::SampleEvery& every) {
  return every.epochs == 0 ? "evaluations" : fmt::format("epochs:{}", every.epochs);
}

std::optional<app::ByteCount> Form<app::ByteCount>::read(std::string_view text) {
  const auto bytes = bytes_from(text);
  return bytes.value_or(0) > 0 ? std::optional(app::ByteCount{*bytes, std::string(text)}) : std::nullopt;
}

}  // namespace lockstep
