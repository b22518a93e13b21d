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

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  bool ended = false;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check(state_->context != nullptr ? 1 : 0, "EVP_MD_CTX_new");
  check(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  ensure(!state_->ended, "a hash that was read takes no more bytes");
  check(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

std::string Sha256::hex() {
  ensure(!state_->ended, "a hash is read once");
  state_->ended = true;
  std::array<unsigned char, 32> digest{};
  check(EVP_DigestFinal_ex(state_->context.get(), digest.data(), nullptr), "EVP_DigestFinal_ex");
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_of_file(const Path& path) {
  const File file = File::open_to_read(path);
  Sha256 hash;
  std::vector<std::byte> piece(std::size_t{1} << 20);
  std::uint64_t left = file.size();
  for (std::uint64_t at = 0; left > 0;) {
    const std::span<std::byte> bytes(piece.data(), static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size())));
    file.read_at(at, bytes);
    hash.update(bytes);
    at += bytes.size();
    left -= bytes.size();
  }
  return hash.hex();
}

}  // namespace lockstep::io
