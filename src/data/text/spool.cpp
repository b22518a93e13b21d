#include "data/text/spool.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/units.h"

namespace lockstep::data {
namespace {

void copy(io::ByteStream& stream, const std::string& name, io::File& file, io::FreeBytes free) {
  constexpr std::uint64_t bytes_a_token_byte = 4;  // of text, at most
  const io::Path folder = file.path().parent_path();
  std::vector<std::byte> block(std::size_t{1} << 20);
  std::uint64_t offset = 0;
  while (const std::size_t count = io::read_up_to(stream, block)) {
    io::demand_space(folder, count + (offset + count) / bytes_a_token_byte,
                     fmt::format("{}, of which {} were read, with its tokens", name, format_bytes(offset)), free);
    file.write_at(offset, std::span(block).first(count));
    offset += count;
  }
}

void forget(const io::Path& path) {
  std::error_code none;
  std::filesystem::remove(path, none);
}

}  // namespace

Spool::Spool(io::ByteStream& stream, const std::string& name, io::Path path, io::FreeBytes free) : path_(std::move(path)) {
  io::File file = io::File::create(path_);
  try {
    copy(stream, name, file, free);
    file.close();
  } catch (...) {
    forget(path_);
    throw;
  }
}

Spool::~Spool() { forget(path_); }

}  // namespace lockstep::data
