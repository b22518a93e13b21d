#include <gtest/gtest.h>

#include "io/http/get.h"

namespace lockstep::io::http {
namespace {

TEST(HttpHead, IsReadInAnyPieces) {
  const std::string text =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/2 206 \r\nContent-Range:  bytes 1-2/3 \r\nX:\r\nno field\r\n\r\nbody\n\nmore";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    HeadReader reader;
    std::string body;
    for (std::size_t at = 0; at < text.size(); at += size) {
      std::string_view piece = std::string_view(text).substr(at, size);
      if (reader.read(piece)) body += piece;
    }
    EXPECT_EQ(body, "body\n\nmore") << size;
    EXPECT_EQ(reader.head().status, 206);
    ASSERT_NE(reader.head().find("content-range"), nullptr);
    EXPECT_EQ(*reader.head().find("content-range"), "bytes 1-2/3");
    EXPECT_EQ(*reader.head().find("x"), "");
    EXPECT_EQ(reader.head().find("no field"), nullptr);
  }
}

TEST(HttpHead, WhatIsNoneIsRefused) {
  for (const std::string text : {"<html>\n", "HTTP/1.1\r\n", "HTTP/1.1 abc\r\n", "HTTP/1.1 42 x\r\n", "\r\n"}) {
    std::string_view piece = text;
    EXPECT_THROW(HeadReader().read(piece), UserError) << text;
  }
  const std::string endless = "HTTP/1.1 200 OK\r\n" + std::string(300000, 'x');
  std::string_view piece = endless;
  EXPECT_THROW(HeadReader().read(piece), UserError);
}

TEST(HttpUrls, TellWhomTheyAskAndWhatMayBeShown) {
  EXPECT_EQ(server_of("https://Hub.example:8/a/b?c"), "https://hub.example:8");
  EXPECT_EQ(server_of("https://hub.example"), "https://hub.example");
  EXPECT_NE(server_of("https://hub.example@evil.example/"), server_of("https://hub.example/"));
  EXPECT_NE(server_of("https://hub.example\\@evil.example/"), server_of("https://hub.example/"));
  EXPECT_EQ(server_of("https://hub.example?@evil.example/"), server_of("https://hub.example/"));
  EXPECT_NE(server_of("http://hub.example/"), server_of("https://hub.example/"));
  EXPECT_EQ(server_of("nothing"), "");
  EXPECT_EQ(shown_url("https://x/a?signature=1"), "https://x/a");
  EXPECT_EQ(shown_url("https://me:word@x/a@b"), "https://x/a@b");
  EXPECT_EQ(shown_url("me:word@x"), "x");
  EXPECT_EQ(shown_url("x/a"), "x/a");
}

}  // namespace
}  // namespace lockstep::io::http
