#pragma once

// Data that tests read but that does not belong to the sources: the folder LOCKSTEP_TEST_DATA, by default ../shared/data
// beside the source folder.

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace lockstep {

/// Where `name` should be; it need not be there (the test then skips).
inline std::filesystem::path test_data(std::string_view name) {
  const char* set = std::getenv("LOCKSTEP_TEST_DATA");
  const auto source = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  return (set != nullptr ? std::filesystem::path(set) : source.parent_path() / "shared" / "data") / name;
}

}  // namespace lockstep
