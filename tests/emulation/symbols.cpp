#include "symbols.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace lockstep::emulation {

std::string symbol_of(const void* address) {
  Dl_info program{};
  if (dladdr(address, &program) == 0) return "?";
  char command[256], line[512] = "";
  const auto offset = static_cast<const char*>(address) - static_cast<const char*>(program.dli_fbase);
  std::snprintf(command, sizeof command, "exec addr2line -Cfse /proc/%d/exe 0x%tx 2>/dev/null", getpid(), offset);
  const std::unique_ptr<FILE, int (*)(FILE*)> answer(popen(command, "r"), pclose);
  if (answer == nullptr || std::fgets(line, sizeof line, answer.get()) == nullptr) return "at " + std::to_string(offset);
  std::string name = line;
  for (const std::string nameless = "(anonymous namespace)::"; name.find(nameless) != std::string::npos;)
    name.erase(name.find(nameless), nameless.size());
  return name.substr(0, name.find_first_of("(\n"));
}

}  // namespace lockstep::emulation
