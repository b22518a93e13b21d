#include "data/text/spool.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace lockstep::data {
namespace {

void copy(std::FILE* stream, io::File& file) {
  std::vector<std::byte> block(std::size_t{1} << 20);
  std::uint64_t offset = 0;
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), stream)) {
    file.write_at(offset, std::span(block).first(count));
    offset += count;
  }
  if (std::ferror(stream) != 0) {
    throw SystemError(fmt::format("cannot read the text: {}", std::generic_category().message(errno)));
  }
}

std::FILE* opened(const io::Path& path) {
  std::FILE* stream = std::fopen(path.c_str(), "rb");
  if (stream == nullptr) io::throw_file_error(errno, "read", path);
  return stream;
}

void forget(const io::Path& path) {
  std::error_code none;
  std::filesystem::remove(path, none);
}

}  // namespace

Spool::Spool(std::FILE* stream, const io::Path& folder) : path_(folder / ".standard-input") {
  io::File file = io::File::create(path_);
  try {
    copy(stream, file);
    file.close();
  } catch (...) {
    forget(path_);
    throw;
  }
}

Spool::Spool(const io::Path& stream, const io::Path& folder)
    : Spool(std::unique_ptr<std::FILE, int (*)(std::FILE*)>(opened(stream), std::fclose).get(), folder) {}

Spool::~Spool() { forget(path_); }

}  // namespace lockstep::data
