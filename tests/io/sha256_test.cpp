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
