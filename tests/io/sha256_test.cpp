#include "io/sha256.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temp_folder.h"

namespace lockstep::io {
namespace {

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

TEST(Sha256Hash, KnownAnswers) {  // FIPS 180-4's examples
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha1Hash, KnownAnswers) {  // FIPS 180-4's example, and what git calls a file of "hello"
  const auto sha1 = [](std::string_view text) {
    Digest digest(DigestKind::sha1);
    digest.update(std::as_bytes(std::span(text)));
    return digest.hex();
  };
  EXPECT_EQ(sha1("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1(std::string_view("blob 6\0hello\n", 13)), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(Sha256Hash, PiecesGiveTheHashOfTheWhole) {
  const std::string text(3 * 1000 * 1000, 'a');
  Sha256 pieces;
  for (std::size_t at = 0; at < text.size(); at += 777777)
    pieces.update(std::as_bytes(std::span(text).subspan(at, std::min<std::size_t>(777777, text.size() - at))));
  EXPECT_EQ(pieces.hex(), sha256(text));
  const TempFolder folder;
  replace_file(folder / "a", text);
  EXPECT_EQ(sha256_of_file(folder / "a"), sha256(text));
  EXPECT_THROW(sha256_of_file(folder / "none"), UserError);
}

TEST(Sha256Hash, IsReadOnce) {
  Sha256 hash;
  hash.hex();
  EXPECT_THROW(hash.hex(), BrokenRule);
  EXPECT_THROW(hash.update({}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::io
