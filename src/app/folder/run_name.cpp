#include "app/folder/run_name.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <random>

namespace lockstep::app {
std::string run_name_from_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d-%H%M%S", &parts);
  return fmt::format("{}-{:08x}", text.data(), std::random_device()());
}

}  // namespace lockstep::app
