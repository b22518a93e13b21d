#pragma once

// An input as a stream, in small parts.

#include <algorithm>
#include <cstddef>
#include <span>

#include "io/stream.h"

namespace lockstep::fuzz {

class Given final : public io::ByteStream {
 public:
  explicit Given(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t read(std::span<std::byte> out) override {
    const std::size_t count = std::min({out.size(), bytes_.size(), std::size_t{97}});
    std::copy_n(bytes_.begin(), count, out.begin());
    bytes_ = bytes_.subspan(count);
    return count;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep::fuzz
