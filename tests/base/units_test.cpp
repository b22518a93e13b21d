#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

TEST(Units, CountsHaveThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123456), "-123,456");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Units, BytesHaveBinaryPrefixes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1610612736), "1.50 GiB");
  EXPECT_EQ(format_bytes(1048575), "1.00 MiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.00 EiB");
}

TEST(Units, SecondsChangeTheirUnit) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(2.5e-7), "250 ns");
  EXPECT_EQ(format_seconds(3.1e-5), "31 us");
  EXPECT_EQ(format_seconds(0.0031), "3.1 ms");
  EXPECT_EQ(format_seconds(0.9999), "1.0 s");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(59.99), "1m 00s");
  EXPECT_EQ(format_seconds(75), "1m 15s");
  EXPECT_EQ(format_seconds(3599.9), "1h 00m");
  EXPECT_EQ(format_seconds(3 * 3600 + 125), "3h 02m");
  EXPECT_EQ(format_seconds(50 * 3600), "2d 02h");
  EXPECT_EQ(format_seconds(-75), "-1m 15s");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "?");
}

TEST(Units, SiPrefixesKeepThreeDigits) {
  EXPECT_EQ(format_si(0), "0");
  EXPECT_EQ(format_si(12.345), "12.3");
  EXPECT_EQ(format_si(999.6), "1.00 k");
  EXPECT_EQ(format_si(12345678), "12.3 M");
  EXPECT_EQ(format_si(-9.999e9), "-10.0 G");
  EXPECT_EQ(format_si(123e12), "123 T");
  EXPECT_EQ(format_si(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Units, BytesAreReadAsPeopleWriteThem) {
  const auto is = [](std::string_view text, std::uint64_t bytes) { EXPECT_EQ(bytes_from(text), bytes) << text; };
  is("4096", 4096);
  is("4GiB", std::uint64_t{4} << 30);
  is("4G", std::uint64_t{4} << 30);
  is("1.5 gib", std::uint64_t{3} << 29);
  is("2kB", 2000);
  is("3MB", 3'000'000);
  is("7 b", 7);
  is("1PiB", std::uint64_t{1} << 50);
  for (const char* text : {"", "GiB", "-1", "-1GiB", "4 GiBs", "4xB", "1e9", "inf", "nan", "4GG", "99999999PiB"})
    EXPECT_EQ(bytes_from(text), std::nullopt) << text;
}

}  // namespace
}  // namespace lockstep
