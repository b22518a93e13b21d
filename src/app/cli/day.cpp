#include "app/cli/day.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text/visible.h"

namespace lockstep::app {

std::tm day_of(const std::string& date) {
  std::tm day{};
  if (date.empty()) {
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &day);
    return day;
  }
  const std::vector<std::string> parts = parts_of_list(date, '-');
  const auto part = [&](std::size_t i) { return parts.size() == 3 ? number_from<int>(parts[i]).value_or(-1) : -1; };
  day.tm_year = part(0) - 1900, day.tm_mon = part(1) - 1, day.tm_mday = part(2);
  const std::tm wanted = day;
  day.tm_isdst = -1;
  const bool is_day = part(0) >= 1900 && part(0) <= 9999 && std::mktime(&day) != -1;
  if (!is_day || day.tm_mday != wanted.tm_mday || day.tm_mon != wanted.tm_mon)
    throw UserError(fmt::format("--date {}: it is no day", visible(date)), "write it as 2026-11-25");
  return day;
}

}  // namespace lockstep::app
