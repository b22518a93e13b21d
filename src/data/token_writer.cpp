#include "data/token_writer.h"

#include <cstring>

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

void TokenWriter::append(std::span<const std::byte> packed, std::int64_t tokens, std::size_t text_bytes) {
  file_.file().write_at(bytes_, packed);
  hash_.update(packed);
  bytes_ += packed.size();
  facts_.tokens += tokens;
  facts_.text_bytes += static_cast<std::int64_t>(text_bytes);
}

TokenFileFacts TokenWriter::commit() {
  file_.commit();
  facts_.name = name_;
  facts_.sha256 = hash_.hex();
  return facts_;
}

}  // namespace lockstep::data
