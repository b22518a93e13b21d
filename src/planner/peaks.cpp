#include "planner/peaks.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/number_text.h"
#include "base/text/lower.h"

namespace lockstep::planner {
namespace {

// From datasheets, without sparsity.
constexpr std::array<Peak, 26> table{
    {{"v100", 125},    {"a100", 312},        {"a100:tf32", 156}, {"a100:fp32", 19.5}, {"h100", 989},   {"h100:tf32", 494.5},
     {"h200", 989},    {"h200:tf32", 494.5}, {"h100-pcie", 756}, {"b200", 2250},      {"b300", 2250},  {"gb200", 2500},
     {"gb300", 2500},  {"l40s", 362},        {"a10g", 70},       {"rtx4090", 165},    {"mi250x", 383}, {"mi300x", 1300},
     {"mi325x", 1300}, {"mi355x", 2500},     {"gaudi2", 432},    {"gaudi3", 1677},    {"tpu-v4", 275}, {"tpu-v5e", 197},
     {"tpu-v5p", 459}, {"tpu-v6e", 918}}};

std::optional<double> formula(std::string_view text) {
  double flops = 2e6;  // of a multiply-add, at MHz
  for (int part = 0; part < 3; ++part) {
    const std::size_t end = part < 2 ? text.find('x') : text.size();
    if (end == std::string_view::npos) return std::nullopt;
    const auto value = number_from<double>(text.substr(0, end));
    if (!value || !(*value > 0)) return std::nullopt;
    flops *= *value;
    if (part < 2) text.remove_prefix(end + 1);
  }
  return flops * 1e-12;
}

}  // namespace

std::span<const Peak> peaks() { return table; }

std::optional<double> peak_from(std::string_view text) {
  const std::string small = lower(text);
  const auto found = std::ranges::find(table, small, &Peak::name);
  return found != table.end() ? found->tflops : formula(small);
}

}  // namespace lockstep::planner
