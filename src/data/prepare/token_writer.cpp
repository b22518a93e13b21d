#include "data/prepare/token_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace lockstep::data {
namespace {

template <class Id>
void narrow_into(std::span<const std::int32_t> ids, std::byte* bytes) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<Id>(ids[i]);
    std::memcpy(bytes + i * sizeof(Id), &id, sizeof(Id));
  }
}

}  // namespace

void pack(std::span<const std::int32_t> ids, const TokenFormat& format, std::vector<std::byte>& bytes) {
  bytes.resize(ids.size() * static_cast<std::size_t>(format.token_bytes));
  if (format.token_bytes == 2) {
    narrow_into<std::uint16_t>(ids, bytes.data());
  } else {
    narrow_into<std::uint32_t>(ids, bytes.data());
  }
}

void TokenWriter::Hashed::append(std::span<const std::byte> more) {
  file.file().write_at(bytes, more);
  hash.update(more);
  bytes += more.size();
}

void TokenWriter::begin_mask() {
  ensure(facts_.tokens == 0, "a mask is of all tokens of a file");
  facts_.mask = MaskFacts{.name = mask_name(path_.filename().string()), .targets = 0, .sha256 = {}};
  mask_.emplace(path_.parent_path() / facts_.mask->name);
}

void TokenWriter::append(std::span<const std::byte> packed, std::int64_t tokens, std::size_t text_bytes,
                         std::span<const std::uint8_t> mask) {
  tokens_.append(packed);
  facts_.tokens += tokens;
  facts_.text_bytes += static_cast<std::int64_t>(text_bytes);
  if (!mask_) return;
  ensure(std::ssize(mask) == tokens, "a mask has a byte a token");
  mask_->append(std::as_bytes(mask));
  facts_.mask->targets += std::count(mask.begin(), mask.end(), std::uint8_t{1});
}

void TokenWriter::sync() {
  tokens_.file.file().sync();
  if (mask_) mask_->file.file().sync();
}

TokenFile TokenWriter::open(const TokenFormat& format) {
  TokenFile file(tokens_.file.file().path().string(), format);
  if (mask_) {
    const io::Path& path = mask_->file.file().path();
    file.set_mask(path.string(), std::make_unique<io::FileBytes>(path));
  }
  return file;
}

TokenFileFacts TokenWriter::commit() {
  facts_.name = path_.filename().string();
  facts_.sha256 = tokens_.hash.hex();
  if (mask_) {
    facts_.mask->sha256 = mask_->hash.hex();
    mask_->file.commit();
  }
  tokens_.file.commit();
  return facts_;
}

}  // namespace lockstep::data
