#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "base/error.h"
#include "io/compressed/decompressor.h"

namespace lockstep::io {
namespace {

constexpr int gzip_alone = 16 + MAX_WBITS;  // zlib.h: inflateInit2()

/// Members may follow each other (RFC 1952, section 2.2), and zeros behind the last, as tapes leave them.
class Gzip final : public Decompressor {
 public:
  Gzip() {
    if (inflateInit2(&stream_, gzip_alone) != Z_OK) throw SystemError("no memory for zlib");
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  ~Gzip() override { inflateEnd(&stream_); }

  Step step(std::span<const std::byte> in, std::span<std::byte> out) override {
    std::size_t zeros = 0;
    if (between_) {
      if (!first_)
        zeros = static_cast<std::size_t>(std::ranges::find_if(in, [](std::byte b) { return b != std::byte{0}; }) - in.begin());
      padded_ = padded_ || zeros > 0;
      if (zeros == in.size()) return {zeros, 0};
      if (padded_) throw SystemError("bytes that are no gzip stand behind its end");
      inflateReset(&stream_);
      between_ = first_ = false;
    }
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));  // which it leaves as they are
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), std::size_t{1} << 30));
    const uInt room = stream_.avail_out;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) between_ = true;
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      throw SystemError(stream_.msg != nullptr ? stream_.msg : fmt::format("zlib's error {}", code));
    }
    return {in.size() - stream_.avail_in, room - stream_.avail_out};
  }
  bool complete() const override { return between_; }

 private:
  z_stream stream_{};
  bool between_ = true, first_ = true, padded_ = false;
};

}  // namespace

std::unique_ptr<Decompressor> make_gzip_decompressor() { return std::make_unique<Gzip>(); }

}  // namespace lockstep::io
