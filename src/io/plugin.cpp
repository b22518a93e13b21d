#include "io/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace lockstep::io {
namespace {

// CMake gives it to the plugins, too: one of another version has another.
constexpr const char* entry = LOCKSTEP_PLUGIN_ENTRY;

std::vector<std::filesystem::path> folders() {
  if (const char* named = std::getenv("LOCKSTEP_PLUGINS")) return {named};
  std::error_code none;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  return {here, (here / "../lib/lockstep").lexically_normal()};
}

}  // namespace

Plugin open_plugin(std::string_view name) {
  std::string places;
  for (const std::filesystem::path& folder : folders()) {
    const std::filesystem::path file = folder / fmt::format("lockstep-{}.so", name);
    std::error_code none;
    if (!std::filesystem::exists(file, none)) {
      places += fmt::format("{}{}", places.empty() ? "" : " or ", folder.string());
      continue;
    }
    // Parts of Open MPI look for its functions among those that all may use.
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return {.problem = fmt::format("{} does not load: {}", file.string(), dlerror()), .loads = false};
    void* opener = dlsym(library, entry);
    if (opener == nullptr)
      return {.problem = fmt::format("{} is no plugin of this version of the program (it lacks {})", file.string(), entry)};
    return {.object = reinterpret_cast<void* (*)()>(opener)(), .problem = ""};
  }
  return {.problem = fmt::format("there is no lockstep-{}.so in {}", name, places)};
}

}  // namespace lockstep::io
