#include "io/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace lockstep::io {
namespace {

void check(int result, std::string_view call) {
  if (result != 1) throw SystemError(fmt::format("OpenSSL refused {}", call));
}

}  // namespace

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  bool ended = false;
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  check(state_->context != nullptr ? 1 : 0, "EVP_MD_CTX_new");
  const EVP_MD* method = kind == DigestKind::sha1 ? EVP_sha1() : EVP_sha256();
  check(EVP_DigestInit_ex(state_->context.get(), method, nullptr), "EVP_DigestInit_ex");
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  ensure(!state_->ended, "a hash that was read takes no more bytes");
  check(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

std::string Digest::hex() {
  ensure(!state_->ended, "a hash is read once");
  state_->ended = true;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  check(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &size), "EVP_DigestFinal_ex");
  std::string text;
  for (const unsigned char byte : std::span(digest).first(size)) text += fmt::format("{:02x}", byte);
  return text;
}

void update_from(Digest& digest, const File& file, std::uint64_t size) {
  std::vector<std::byte> piece(std::size_t{1} << 20);
  for (std::uint64_t at = 0; at < size;) {
    const auto bytes = std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(size - at, piece.size())));
    file.read_at(at, bytes);
    digest.update(bytes);
    at += bytes.size();
  }
}

std::string sha256_of_text(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

std::string sha256_of_file(const Path& path) {
  const File file = File::open_to_read(path);
  Sha256 hash;
  update_from(hash, file, file.size());
  return hash.hex();
}

}  // namespace lockstep::io
