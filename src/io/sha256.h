#pragma once

// SHA-256 of streams and files, and SHA-1, by which git names what it keeps.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/file.h"

namespace lockstep::io {

/// The kind of digest. SHA-1 finds damage, but gives no security against forgery.
enum class DigestKind : std::uint8_t { sha1, sha256 };

class Digest {
 public:
  explicit Digest(DigestKind kind);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// Lowercase hexadecimal digits of all bytes so far, 40 or 64; ends the stream (a second call throws BrokenRule).
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Sha256 final : public Digest {
 public:
  Sha256() : Digest(DigestKind::sha256) {}
};

/// Gives digest.update() the first `size` bytes of a file, in pieces.
void update_from(Digest& digest, const File& file, std::uint64_t size);
/// The SHA-256 of a text.
std::string sha256_of_text(std::string_view text);
/// The SHA-256 of a whole file.
std::string sha256_of_file(const Path& path);

}  // namespace lockstep::io
