#include "data/verification.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "io/sha256.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t second = 1'000'000'000;

/// A file as it was at a time.
struct Version {
  std::int64_t bytes = 0, modified = 0, inode = 0;  ///< modified: nanoseconds since 1970
  bool operator==(const Version&) const = default;
};

Version version_of(const io::Path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) io::throw_file_error(errno, "read", path);
  return {status.st_size, status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec, static_cast<std::int64_t>(status.st_ino)};
}

Json stamp_json(const std::string& sha256, const Version& version) {
  return Json::Object{{"sha256", sha256}, {"bytes", version.bytes}, {"modified_ns", version.modified}, {"inode", version.inode}};
}

bool was_verified(const io::Path& path, const std::string& sha256) {
  constexpr std::uint64_t most_bytes = 4096;
  const io::Path stamp = stamp_path(path);
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(stamp, unknown)) return false;
  try {
    return Json::parse(io::read_document(stamp, most_bytes)).dump() == stamp_json(sha256, version_of(path)).dump();
  } catch (const UserError&) {
    return false;  // written by something else, or cut off
  }
}

// A file that changes twice within the clock's steps would keep its time: what has just changed is verified again the next time.
void remember(const io::Path& path, const std::string& sha256, const Version& version) {
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (now.tv_sec * second + now.tv_nsec - version.modified < 2 * second) return;
  try {
    io::replace_file(stamp_path(path), stamp_json(sha256, version).dump() + "\n");
  } catch (const std::exception&) {
    return;  // a folder that this user may only read
  }
}

}  // namespace

io::Path stamp_path(const io::Path& file) { return file.parent_path() / fmt::format(".{}.verified", file.filename().string()); }

void verify_files(const io::Path& folder, const TokenDescription& description, std::span<const std::string> names, Log& log) {
  std::vector<Problem> problems;
  const auto verify = [&](const std::string& name, const std::string& sha256) {
    const io::Path path = described_path(folder, name);
    if (was_verified(path, sha256)) return;
    const Version before = version_of(path);
    constexpr std::int64_t long_one = std::int64_t{1} << 30;
    if (before.bytes > long_one) log.info(fmt::format("Verifying {}", path.string()));
    const bool same = io::sha256_of_file(path) == sha256;
    const Version after = version_of(path);
    if (same && before == after) return remember(path, sha256, after);
    problems.push_back({fmt::format("{} is not the file that tokens.json describes: its SHA-256 is another", path.string()),
                        "prepare the text again with lockstep prepare, or copy the whole folder again"});
  };
  for (const std::string& name : names) {
    const TokenFileFacts* facts = description.find(name);
    ensure(facts != nullptr, "only described files are verified");
    verify(name, facts->sha256);
    if (facts->mask) verify(facts->mask->name, facts->mask->sha256);
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

}  // namespace lockstep::data
