#pragma once

// Tensors of a golden file, and how far others are from them.

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/file.h"
#include "io/safetensors.h"

namespace lockstep::support {

/// Whole tensors of one file, by name.
class GoldenFile {
 public:
  explicit GoldenFile(const io::Path& path) : file_(path) {
    header_ = io::parse_safetensors(file_.bytes(), file_.bytes().size(), path.string());
  }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const io::SafetensorsEntry* entry = header_.find(name);
    if (entry == nullptr) throw BrokenRule("the golden file has " + name);
    std::vector<T> out(entry->bytes / sizeof(T));
    std::memcpy(out.data(), file_.bytes().data() + entry->offset, entry->bytes);
    return out;
  }

 private:
  io::MappedFile file_;
  io::SafetensorsHeader header_;
};

/// Length of the difference over the length of b.
inline double relative(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / std::max(size, 1e-20));
}

}  // namespace lockstep::support
