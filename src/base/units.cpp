#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/text/lower.h"

namespace lockstep {

std::string format_count(std::int64_t n) {
  std::string digits = std::to_string(n);
  const std::size_t first = n < 0 ? 1 : 0;
  for (std::size_t end = digits.size(); end > first + 3; end -= 3) digits.insert(end - 3, 1, ',');
  return digits;
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.995 would print as 1024.00.
  while (value >= 1023.995 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, units[unit]);
}

std::optional<std::uint64_t> bytes_from(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || !(value >= 0)) return std::nullopt;
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (*c != ' ' || !unit.empty()) unit += lower(*c);
  }
  static constexpr std::string_view prefixes = "kmgtp";
  if (!unit.empty() && unit != "b") {
    const std::size_t power = prefixes.find(unit[0]);
    const std::string rest = unit.substr(1);
    if (power == std::string_view::npos || (rest != "" && rest != "b" && rest != "ib")) return std::nullopt;
    value *= std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  if (value > 0x1p62) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 0) return "-" + format_seconds(-seconds);
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 0.9995e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const double minutes = std::floor(std::round(seconds) / 60);
  if (minutes < 60) return fmt::format("{:.0f}m {:02.0f}s", minutes, std::round(seconds) - minutes * 60);
  const double hours = std::floor(minutes / 60);
  if (hours < 48) return fmt::format("{:.0f}h {:02.0f}m", hours, minutes - hours * 60);
  const double days = std::floor(hours / 24);
  return fmt::format("{:.0f}d {:02.0f}h", days, hours - days * 24);
}

std::string format_si(double value) {
  static constexpr std::array prefixes{"k", "M", "G", "T", "P", "E"};
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (std::abs(value) < 999.5) return fmt::format("{:.3g}", value);
  std::size_t prefix = 0;
  value /= 1000;
  while (std::abs(value) >= 999.5 && prefix + 1 < prefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return fmt::format("{:.{}f} {}", value, std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0, prefixes[prefix]);
}

}  // namespace lockstep
