#include "io/page_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temp_folder.h"

namespace lockstep::io {
namespace {

TEST(PageCache, WhatIsForgottenReadsTheSame) {
  const TempFolder folder;
  replace_file(folder / "data", "0123456789");
  drop_cached(folder / "data");
  EXPECT_EQ(read_file(folder / "data"), "0123456789");
  EXPECT_THROW(drop_cached(folder / "none"), UserError);
}

}  // namespace
}  // namespace lockstep::io
