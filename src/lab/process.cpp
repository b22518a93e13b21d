#include "lab/process.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "base/error.h"
#include "io/free_memory.h"

namespace lockstep::lab {
namespace {

/// Bytes that the line "NAME: 123 kB" of the file says.
std::int64_t bytes_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return 1024 * std::stoll(line.substr(name.size()));
  }
  throw SystemError(std::string(path) + ": it has no line " + name);
}

}  // namespace

double seconds_since_start() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The name in parentheses may hold anything; behind it, word 20 is the start in clock ticks after boot.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) throw SystemError("/proc/self/stat: it has no process name");
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  for (int i = 0; i < 20; ++i) words >> word;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double ticks = std::stod(word);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
         ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::int64_t peak_resident_mib() { return bytes_in("/proc/self/status", "VmHWM:") >> 20; }

std::int64_t free_memory() {
  if (const auto free = io::free_memory()) return free->bytes;
  throw SystemError("/proc/meminfo: it does not say how much memory is available");
}

}  // namespace lockstep::lab
