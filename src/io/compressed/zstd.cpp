#include <zstd.h>

#include "base/error.h"
#include "io/compressed/decompressor.h"

namespace lockstep::io {
namespace {

/// Frames may follow each other (RFC 8878, section 3). A window of more than 128 MiB (zstd --long=28 and above) is refused, as
/// the program does.
class Zstd final : public Decompressor {
 public:
  Zstd() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw SystemError("no memory for zstd");
  }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;
  ~Zstd() override { ZSTD_freeDCtx(context_); }

  Step step(std::span<const std::byte> in, std::span<std::byte> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    if (in.empty() && wanted_ == 0) return {};  // it would begin another frame
    wanted_ = ZSTD_decompressStream(context_, &to, &from);
    if (ZSTD_isError(wanted_) != 0) throw SystemError(ZSTD_getErrorName(wanted_));
    return {from.pos, to.pos};
  }
  bool complete() const override { return wanted_ == 0; }

 private:
  ZSTD_DCtx* context_;
  std::size_t wanted_ = 0;  // 0: a frame has ended, or none has begun
};

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor() { return std::make_unique<Zstd>(); }

}  // namespace lockstep::io
