#include "data/prepare/download.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "io/child.h"

namespace lockstep::data {
namespace {

// Seconds: of silence, of the whole, and of everything with what is tried again.
constexpr int silence = 60, whole = 3600, all = 3 * whole + 60;

}  // namespace

void download(const std::string& url, const io::Path& path, const std::string& remedy, const std::string& curl) {
  io::Path partial = path;
  partial += ".partial";
  const io::ChildOutcome outcome =
      io::run_child({curl, "-fsSL", "--connect-timeout", "15", "--speed-limit", "1", "--speed-time", std::to_string(silence),
                     "--max-time", std::to_string(whole), "--retry", "2", "-o", partial.string(), url},
                    all);
  if (outcome.start_error != 0) {
    throw UserError(fmt::format("cannot download {}: the program {} cannot be run ({})", url, curl,
                                std::generic_category().message(outcome.start_error)),
                    "install curl, or " + remedy);
  }
  if (outcome.status != 0 || outcome.timed_out) {
    std::error_code none;
    std::filesystem::remove(partial, none);
    std::string said = outcome.err;
    while (said.ends_with('\n')) said.pop_back();
    throw UserError(
        fmt::format("cannot download {}: {}", url, said.empty() ? fmt::format("{} ended with {}", curl, outcome.status) : said),
        "is there a network? Without one, " + remedy);
  }
  std::filesystem::rename(partial, path);
}

}  // namespace lockstep::data
