#include "io/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace lockstep::io {
namespace {

std::uint32_t of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(of(""), 0U);
  EXPECT_EQ(of("123456789"), 0xE3069283);
  EXPECT_EQ(of(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(of(std::string(32, '\xFF')), 0x62A8AB43U);
}

}  // namespace
}  // namespace lockstep::io
