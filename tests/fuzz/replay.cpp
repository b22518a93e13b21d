// Goes through files as a fuzzer would, without one: the inputs that are kept are tested in every build.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "io/file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int count = 0;
  std::string name;
  try {
    for (int i = 1; i < argc; ++i) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
        name = entry.path().string();
        const std::string input = lockstep::io::read_file(entry.path());
        // At the end of memory of its own, where reading on is noticed under AddressSanitizer.
        const std::vector<std::uint8_t> bytes(input.begin(), input.end());
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        ++count;
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 1;
  }
  std::printf("%d inputs\n", count);
  return count > 0 ? 0 : 1;
}
