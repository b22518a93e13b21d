// Streams of gzip and zstd; the first byte says which, and how much is asked for at a time.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "fuzz/given.h"
#include "fuzz/target.h"
#include "io/compressed/decompressor.h"

namespace lockstep::fuzz {
namespace {

// Whether a frame of zstd asks for a window that takes more memory than a fuzzer has. The format allows windows of up to 128 MiB
// (RFC 8878, section 3.1.1.1).
bool has_large_window(std::span<const std::byte> input) {
  const auto number = [&](std::size_t at) { return at < input.size() ? std::to_integer<std::uint64_t>(input[at]) : 0; };
  constexpr std::array<std::size_t, 4> dictionary_bytes{0, 1, 2, 4}, size_bytes{1, 2, 4, 8};
  for (std::size_t at = 0; at + 6 < input.size(); ++at) {
    if ((number(at) | number(at + 1) << 8 | number(at + 2) << 16 | number(at + 3) << 24) != 0xFD2FB528U) continue;
    const std::uint64_t descriptor = number(at + 4);
    std::uint64_t window = std::uint64_t{2} << (10 + (number(at + 5) >> 3));
    if ((descriptor & 0x20) != 0) {
      window = 0;
      for (std::size_t byte = 0; byte < size_bytes[descriptor >> 6]; ++byte)
        window |= number(at + 5 + dictionary_bytes[descriptor & 3] + byte) << (8 * byte);
    }
    if (window > (std::uint64_t{1} << 25)) return true;
  }
  return false;
}

}  // namespace

void read(std::span<const std::byte> input) {
  if (input.empty() || has_large_window(input)) return;
  const auto first = std::to_integer<unsigned>(input[0]);
  const auto stream = io::unpacked(std::make_unique<Given>(input.subspan(1)),
                                   (first & 1) != 0 ? io::Compression::gzip : io::Compression::zstd, "input");
  std::vector<std::byte> part((first & 2) != 0 ? 7 : 4096);
  constexpr std::size_t enough = std::size_t{1} << 18;  // a bomb has no end
  for (std::size_t all = 0; all < enough;) {
    const std::size_t count = stream->read(part);
    ensure(count <= part.size(), "no more than is asked for");
    if (count == 0) return;
    all += count;
  }
}

}  // namespace lockstep::fuzz
