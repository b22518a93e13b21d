#include "io/compressed/decompressor.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace lockstep::io {
namespace {

class Unpacked final : public ByteStream {
 public:
  Unpacked(std::unique_ptr<ByteStream> packed, Compression compression, std::string name)
      : packed_(std::move(packed)),
        compression_(compression),
        name_(std::move(name)),
        decompressor_(compression == Compression::gzip ? make_gzip_decompressor() : make_zstd_decompressor()),
        buffer_(std::size_t{256} << 10) {}

  std::size_t read(std::span<std::byte> out) override {
    while (true) {
      if (rest_.empty() && !ended_) refill();
      const Decompressor::Step step = attempt(out);
      rest_ = rest_.subspan(step.taken);
      taken_ += step.taken;
      if (step.given > 0) return step.given;
      if (ended_ && step.taken == 0) break;
    }
    if (rest_.empty() && decompressor_->complete()) return 0;
    refuse("it ends too soon", "it was cut off: copy or download it again");
  }

 private:
  void refill() {
    rest_ = std::span(buffer_).first(packed_->read(buffer_));
    ended_ = rest_.empty();
  }

  Decompressor::Step attempt(std::span<std::byte> out) {
    try {
      return decompressor_->step(rest_, out);
    } catch (const SystemError& error) {
      refuse(error.what(), "it is damaged: copy or download it again");
    }
  }

  [[noreturn]] void refuse(std::string_view why, const char* remedy) const {
    throw UserError(
        fmt::format("{} cannot be unpacked as {} behind byte {}: {}", name_, name_of(compression_), format_count(taken_), why),
        remedy);
  }

  std::unique_ptr<ByteStream> packed_;
  Compression compression_;
  std::string name_;
  std::unique_ptr<Decompressor> decompressor_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> rest_;
  std::uint64_t taken_ = 0;
  bool ended_ = false;
};

}  // namespace

std::string_view name_of(Compression compression) {
  return compression == Compression::gzip ? "gzip" : compression == Compression::zstd ? "zstd" : "none";
}

std::unique_ptr<ByteStream> unpacked(std::unique_ptr<ByteStream> packed, Compression compression, std::string name) {
  ensure(compression != Compression::none, "there is something to unpack");
  return std::make_unique<Unpacked>(std::move(packed), compression, std::move(name));
}

}  // namespace lockstep::io
