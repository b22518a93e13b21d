#pragma once

// An input as the bytes of a file.

#include <algorithm>
#include <span>

#include "base/error.h"
#include "io/file.h"

namespace lockstep::fuzz {

class Memory final : public io::ByteSource {
 public:
  explicit Memory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    ensure(offset <= bytes_.size() && out.size() <= bytes_.size() - offset, "what is read is there");
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep::fuzz
