// What the compressors' own libraries write.

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "io/compressed/decompressor.h"
#include "support/packed.h"
#include "support/text.h"

namespace lockstep::io {
namespace {

/// Gives at most `most` bytes a call.
class Text final : public ByteStream {
 public:
  Text(std::string text, std::size_t most) : text_(std::move(text)), most_(most) {}
  std::size_t read(std::span<std::byte> out) override {
    const std::size_t count = std::min({out.size(), most_, text_.size() - at_});
    std::copy_n(std::as_bytes(std::span(text_)).begin() + static_cast<std::ptrdiff_t>(at_), count, out.begin());
    at_ += count;
    return count;
  }

 private:
  std::string text_;
  std::size_t most_, at_ = 0;
};

std::string unpack(const std::string& packed, Compression compression, std::size_t most = 100000, std::size_t room = 65536) {
  const std::unique_ptr<ByteStream> stream = unpacked(std::make_unique<Text>(packed, most), compression, "a.file");
  std::string all, part(room, '\0');
  while (const std::size_t count = stream->read(std::as_writable_bytes(std::span(part)))) all += part.substr(0, count);
  return all;
}

std::string refusal(const std::string& packed, Compression compression) {
  try {
    unpack(packed, compression);
  } catch (const UserError& error) {
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.problems().front().message;
  }
  ADD_FAILURE() << "it was unpacked";
  return "";
}

std::string long_text() {
  std::string text;
  for (unsigned i = 0; text.size() < 3'000'000; ++i) text += std::to_string(i * 2654435761U) + " ";
  return text;
}

TEST(Compressed, GivesBackWhatWasPacked) {
  const std::string text = long_text();
  for (const std::size_t most : {1000U, 1000000U}) {
    for (const std::size_t room : {777U, 4000000U}) {
      EXPECT_EQ(unpack(gzip(text), Compression::gzip, most, room), text);
      EXPECT_EQ(unpack(zstd(text), Compression::zstd, most, room), text);
    }
  }
  EXPECT_EQ(unpack(gzip("tiny"), Compression::gzip, 1, 1), "tiny");
  EXPECT_EQ(unpack(zstd("tiny"), Compression::zstd, 1, 1), "tiny");
  EXPECT_EQ(unpack(gzip(""), Compression::gzip), "");
  EXPECT_EQ(unpack(zstd(""), Compression::zstd), "");
}

TEST(Compressed, MembersAndFramesFollowEachOther) {
  EXPECT_EQ(unpack(gzip("one ") + gzip("") + gzip("two"), Compression::gzip), "one two");
  EXPECT_EQ(unpack(gzip("one ") + gzip("two"), Compression::gzip, 1, 1), "one two");
  EXPECT_EQ(unpack(gzip("padded") + std::string(1000, '\0'), Compression::gzip, 7), "padded");
  const std::string skipped("\x50\x2a\x4d\x18\3\0\0\0xyz", 11);
  EXPECT_EQ(unpack(zstd("one ") + skipped + zstd("two"), Compression::zstd), "one two");
  EXPECT_EQ(unpack(zstd("one ") + zstd("two"), Compression::zstd, 1, 1), "one two");
}

TEST(Compressed, WhatIsCutOffOrDamagedIsRefused) {
  const std::string text = long_text(), in_gzip = gzip(text), in_zstd = zstd(text);
  for (const std::size_t left : {2U, 9U, 1000U, 4U}) {
    EXPECT_TRUE(contains(refusal(in_gzip.substr(0, in_gzip.size() - left), Compression::gzip), "it ends too soon")) << left;
    EXPECT_TRUE(contains(refusal(in_zstd.substr(0, in_zstd.size() - left), Compression::zstd), "it ends too soon")) << left;
  }
  std::string damaged = in_gzip;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  EXPECT_TRUE(contains(refusal(damaged, Compression::gzip), "a.file cannot be unpacked as gzip behind byte "));
  damaged = in_zstd;
  for (std::size_t i = 0; i < 40; ++i) damaged[damaged.size() / 2 + i] = '\x55';
  EXPECT_TRUE(contains(refusal(damaged, Compression::zstd), "a.file cannot be unpacked as zstd behind byte "));
  EXPECT_TRUE(contains(refusal(gzip("text") + "no more", Compression::gzip), "cannot be unpacked as gzip"));
  EXPECT_TRUE(contains(refusal(gzip("text") + std::string(9, '\0') + gzip("more"), Compression::gzip), "behind its end"));
  EXPECT_TRUE(contains(refusal(zstd("text") + "no more", Compression::zstd), "cannot be unpacked as zstd"));
}

}  // namespace
}  // namespace lockstep::io
