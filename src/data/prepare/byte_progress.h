#pragma once

// Bytes done, drawn as a bar with MB/s.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/terminal.h"

namespace lockstep::data {

class ByteProgress {
 public:
  ByteProgress(std::FILE* out, const std::string& label, std::uint64_t total);
  void add(std::size_t bytes);
  void finish() { bar_.finish(); }

 private:
  ProgressBar bar_;
  double started_, done_ = 0;
};

}  // namespace lockstep::data
