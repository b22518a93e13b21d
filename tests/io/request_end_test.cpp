// Where a request ends, told while it comes byte by byte.

#include "io/http/request_end.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::io::http {
namespace {

/// How many bytes had come when it was said to be whole; one more than all: never.
std::size_t end_of(std::string_view text, std::uint64_t body_bytes = 1000) {
  RequestEnd end(body_bytes);
  for (std::size_t count = 1; count <= text.size(); ++count) {
    if (end.reached(text.substr(0, count))) return count;
  }
  return text.size() + 1;
}

void expect_at_its_end(const std::string& request) {
  EXPECT_EQ(end_of(request), request.size()) << request;
  RequestEnd at_once(1000);
  EXPECT_TRUE(at_once.reached(request + "GET /next")) << request;
}

TEST(RequestEnd, IsBehindTheBody) {
  expect_at_its_end("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  expect_at_its_end("\r\n\r\n");
  expect_at_its_end("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody");
  expect_at_its_end("POST / HTTP/1.1\r\nA: b\r\ncontent-length:\t12\r\nB: c\r\n\r\nab\r\n\r\ncdefgh");
  expect_at_its_end("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nbo\r\nA;x=y\r\n0\r\n\r\n45678\r\n0\r\n\r\n");
  expect_at_its_end("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n00\r\nTrailer: x\r\n\r\n");
}

TEST(RequestEnd, WhatIsNotPlainIsNotWaitedFor) {
  for (const std::string head :
       {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"})
    EXPECT_EQ(end_of(head + "body"), head.size()) << head;
  const std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(end_of(chunked + "GET /\r\nmore"), chunked.size() + 7);
  EXPECT_LT(end_of(chunked + std::string(10000, '1')), chunked.size() + 5000);
}

TEST(RequestEnd, WhatIsTooLargeIsNotWaitedFor) {
  const std::string said = "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n";
  EXPECT_EQ(end_of(said + std::string(100, 'x')), said.size());
  std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 2000; ++i) chunked += "100\r\n" + std::string(256, 'x') + "\r\n";
  EXPECT_LT(end_of(chunked), most_head + 2000);
  EXPECT_EQ(end_of("GET /" + std::string(200000, 'a')), most_head + 1);
}

TEST(RequestEnd, SaysOnceThatTheClientWaitsToBeToldToGoOn) {
  RequestEnd end(1000), other(1000);
  const std::string head = "POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_FALSE(end.reached(head.substr(0, 30)));
  EXPECT_FALSE(end.expects());
  EXPECT_FALSE(end.reached(head));
  EXPECT_TRUE(end.expects());
  EXPECT_FALSE(end.reached(head + "a"));
  EXPECT_FALSE(end.expects());
  EXPECT_TRUE(end.reached(head + "ab"));
  EXPECT_FALSE(other.reached("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_FALSE(other.expects());
}

}  // namespace
}  // namespace lockstep::io::http
