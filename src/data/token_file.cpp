#include "data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/units.h"
#include "io/file.h"

namespace lockstep::data {
namespace {

// The ids widened to int32; the largest of them.
template <class Id>
std::uint64_t widen(const std::byte* from, std::span<std::int32_t> ids) {
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    largest = std::max<std::uint64_t>(largest, id);
    ids[i] = static_cast<std::int32_t>(id);
  }
  return largest;
}

std::unique_ptr<io::ByteSource> open(const std::string& path) {
  if (!io::exists(path)) {
    throw UserError(fmt::format("there is no token file {}", path), "make it with lockstep prepare, or correct the path");
  }
  return std::make_unique<io::FileBytes>(path);
}

/// Bytes that this rank has not.
class NoBytes final : public io::ByteSource {
 public:
  explicit NoBytes(std::int64_t size) : size_(static_cast<std::uint64_t>(size)) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t, std::span<std::byte>) const override { ensure(false, "another rank reads this file"); }

 private:
  std::uint64_t size_;
};

}  // namespace

TokenFile::TokenFile(const std::string& path, TokenFormat format) : TokenFile(path, format, open(path)) {}

TokenFile::TokenFile(std::string path, TokenFormat format, std::unique_ptr<io::ByteSource> source)
    : path_(std::move(path)), format_(format), bytes_(std::move(source)) {
  const auto bytes = narrow<std::int64_t>(bytes_->size() - std::min(bytes_->size(), format_.header_bytes));
  if (bytes == 0) throw UserError(fmt::format("the token file {} is empty", path_), "prepare the text again");
  if (bytes % format_.token_bytes != 0) {
    throw UserError(
        fmt::format("the token file {} has {} bytes, not a multiple of the {} of {}: it is truncated or no token file", path_,
                    format_count(bytes), format_.token_bytes, format_.dtype()),
        "copy it again or prepare the text again");
  }
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min<std::int64_t>(tokens(), 4096)));
  read(0, ids);
}

TokenFile TokenFile::elsewhere(std::string path, TokenFormat format, std::int64_t tokens, std::string mask_path) {
  TokenFile file;
  file.path_ = std::move(path);
  file.format_ = format;
  file.format_.header_bytes = 0;
  file.bytes_ = std::make_unique<NoBytes>(multiply(tokens, format.token_bytes));
  if (!mask_path.empty()) file.set_mask(std::move(mask_path), std::make_unique<NoBytes>(tokens));
  return file;
}

void TokenFile::set_mask(std::string path, std::unique_ptr<io::ByteSource> bytes) {
  if (const auto found = narrow<std::int64_t>(bytes->size()); found != tokens()) {
    throw UserError(fmt::format("the loss mask {} has {} bytes, but {} has {} tokens", path, format_count(found), path_,
                                format_count(tokens())),
                    "copy it again or prepare the text again");
  }
  mask_path_ = std::move(path);
  mask_ = std::move(bytes);
}

void TokenFile::set_documents(std::int64_t documents, std::string index_path) {
  documents_ = documents;
  index_path_ = std::move(index_path);
}

std::uint64_t TokenFile::read_raw(std::int64_t first, std::span<std::int32_t> ids) const {
  const auto width = static_cast<std::size_t>(format_.token_bytes);
  const std::uint64_t place = format_.header_bytes + static_cast<std::uint64_t>(first) * width;
  if (width > sizeof(std::int32_t)) {
    std::array<std::byte, 8192> some;
    std::uint64_t largest = 0;
    for (std::size_t done = 0; done < ids.size();) {
      const std::span<std::int32_t> part = ids.subspan(done, std::min(ids.size() - done, some.size() / width));
      bytes_->read_at(place + done * width, std::span(some).first(part.size() * width));
      largest = std::max(largest, widen<std::uint64_t>(some.data(), part));
      done += part.size();
    }
    return largest;
  }
  // The bytes come to the end of the ids' own memory and are widened from there: none is overwritten before it is read.
  const auto raw = std::as_writable_bytes(ids).last(ids.size() * width);
  bytes_->read_at(place, raw);
  if (width == 1) return widen<std::uint8_t>(raw.data(), ids);
  return width == 2 ? widen<std::uint16_t>(raw.data(), ids) : widen<std::uint32_t>(raw.data(), ids);
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> ids) const {
  ensure(first >= 0 && first + static_cast<std::int64_t>(ids.size()) <= tokens(), "the tokens exist");
  if (read_raw(first, ids) >= static_cast<std::uint64_t>(format_.vocabulary)) refuse_id(first, std::ssize(ids));
}

void TokenFile::refuse_id(std::int64_t first, std::int64_t count) const {
  std::uint64_t id = 0;
  std::int64_t at = first;
  const auto width = static_cast<std::size_t>(format_.token_bytes);
  for (; at < first + count && id < static_cast<std::uint64_t>(format_.vocabulary); ++at) {
    bytes_->read_at(format_.header_bytes + static_cast<std::uint64_t>(at) * width,
                    std::as_writable_bytes(std::span(&id, 1)).first(width));
  }
  throw UserError(
      fmt::format("{}: token {} has id {}, above the vocabulary of {}", path_, at - 1, id, format_count(format_.vocabulary)),
      "the file is damaged, or was made for another vocabulary: prepare the text again");
}

std::optional<std::int64_t> TokenFile::id_from(std::int64_t least) const {
  std::vector<std::int32_t> ids;
  std::int32_t largest = 0;
  for (std::int64_t first = 0; first < tokens(); first += std::ssize(ids)) {
    ids.resize(static_cast<std::size_t>(std::min<std::int64_t>(tokens() - first, 1 << 18)));
    read(first, ids);
    largest = std::max(largest, std::ranges::max(ids));
  }
  return largest >= least ? std::optional<std::int64_t>(largest) : std::nullopt;
}

std::int64_t TokenFile::apply_mask(std::int64_t first, std::span<std::int32_t> targets) const {
  if (!mask_) return std::ssize(targets);
  std::array<std::uint8_t, 4096> taught;
  std::int64_t left = 0;
  for (std::size_t done = 0; done < targets.size(); done += taught.size()) {
    const auto part = targets.subspan(done, std::min(taught.size(), targets.size() - done));
    const auto place = static_cast<std::uint64_t>(first) + done;
    mask_->read_at(place, std::as_writable_bytes(std::span(taught).first(part.size())));
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (taught[i] > 1) {
        throw UserError(
            fmt::format("the loss mask {}: byte {} is {}, neither 0 nor 1", mask_path_, place + i, static_cast<int>(taught[i])),
            "the file is damaged: prepare the text again");
      }
      if (taught[i] == 0) part[i] = -1;
      left += taught[i];
    }
  }
  return left;
}

std::string mask_name(std::string_view token_file) {
  return fmt::format("{}.mask.bin", token_file.substr(0, token_file.rfind('.')));
}

}  // namespace lockstep::data
