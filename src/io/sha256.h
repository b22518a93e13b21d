#pragma once

// SHA-256 of streams and files.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/file.h"

namespace lockstep::io {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// 64 lowercase hexadecimal digits of all bytes so far; ends the stream (a second call throws BrokenRule).
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The hash of a whole file, read in pieces.
std::string sha256_of_file(const Path& path);

}  // namespace lockstep::io
