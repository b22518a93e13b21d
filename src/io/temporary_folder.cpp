#include "io/temporary_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"
#include "io/interrupted.h"

namespace lockstep::io {

Path temporary_folder() {
  const char* const named = std::getenv("TMPDIR");
  const bool usual = named == nullptr || *named == '\0';
  const Path folder = usual ? "/tmp" : named;
  std::string name = (folder / "lockstep-XXXXXX").string();
  const int file = uninterrupted([&] { return ::mkostemp(name.data(), O_CLOEXEC); });
  if (file < 0) {
    throw UserError(fmt::format("{}{}: no folder for temporary files, for a file cannot be made there: {}",
                                usual ? "" : "TMPDIR=", folder.string(), std::generic_category().message(errno)),
                    "set TMPDIR to a folder that can be written");
  }
  ::close(file);
  ::unlink(name.c_str());
  return folder;
}

TemporaryFolder::TemporaryFolder(std::string_view name) {
  std::string made = (temporary_folder() / fmt::format("lockstep-{}-XXXXXX", name)).string();
  if (::mkdtemp(made.data()) == nullptr) throw_file_error(errno, "make the folder", made);
  path_ = made;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep::io
