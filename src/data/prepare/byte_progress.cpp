#include "data/prepare/byte_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/timer.h"

namespace lockstep::data {

ByteProgress::ByteProgress(std::FILE* out, const std::string& label, std::uint64_t total)
    : bar_(out, label, static_cast<double>(total)), started_(now_seconds()) {}

void ByteProgress::add(std::size_t bytes) {
  done_ += static_cast<double>(bytes);
  bar_.update(done_, fmt::format("{:.0f} MB/s", done_ * 1e-6 / std::max(now_seconds() - started_, 1e-3)));
}

}  // namespace lockstep::data
