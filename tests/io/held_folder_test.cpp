#include "io/held_folder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temp_folder.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;

TEST(HeldFolder, IsKnownUnderAnotherName) {
  const TempFolder temp;
  make_folder(temp / "a");
  const HeldFolder held(temp / "a");
  EXPECT_TRUE(held.in_place());
  EXPECT_EQ(held.found(), fs::canonical(temp / "a"));
  fs::rename(temp / "a", temp / "b");
  EXPECT_FALSE(held.in_place());
  EXPECT_EQ(held.found(), fs::canonical(temp / "b"));
  make_folder(temp / "a");
  EXPECT_FALSE(held.in_place()) << "another folder has its name";
  fs::remove(temp / "b");
  EXPECT_EQ(held.found(), std::nullopt);
}

TEST(HeldFolder, ThrowsForWhatIsNoFolder) {
  const TempFolder temp;
  EXPECT_THROW(HeldFolder(temp / "none"), UserError);
  replace_file(temp / "file", "");
  EXPECT_THROW(HeldFolder(temp / "file"), UserError);
}

TEST(MakeFolder, MakesNoneAboveIt) {
  const TempFolder temp;
  EXPECT_THROW(make_folder(temp / "a/b"), UserError);
  EXPECT_FALSE(fs::exists(temp / "a"));
  make_folder(temp / "a");
  make_folder(temp / "a");
  EXPECT_TRUE(fs::is_directory(temp / "a"));
}

}  // namespace
}  // namespace lockstep::io
