#include "io/stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "base/error.h"
#include "io/appended_file.h"
#include "io/space.h"
#include "support/temp_folder.h"
#include "support/text.h"

namespace lockstep::io {
namespace {

Path pipe_in(const TempFolder& folder) {
  const Path path = folder / "pipe";
  EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
  return path;
}

template <class Action>
std::string refusal(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.problems().front().message;
  }
  ADD_FAILURE() << "it was not refused";
  return "";
}

std::string all_of(ByteStream& stream) {
  std::array<std::byte, 1000> part{};
  std::string text;
  while (const std::size_t count = stream.read(part)) text.append(reinterpret_cast<const char*>(part.data()), count);
  return text;
}

TEST(Stream, APipeThatNobodyWritesIntoIsRefused) {
  const TempFolder folder;
  const Path pipe = pipe_in(folder);
  const std::unique_ptr<ByteStream> stream = open_stream(pipe, {.writer = 0.05});
  const std::string text = refusal([&] { all_of(*stream); });
  EXPECT_TRUE(contains(text, "pipe: nobody writes into that pipe")) << text;
}

TEST(Stream, ASilentWriterIsWaitedForAWhile) {
  const TempFolder folder;
  const Path pipe = pipe_in(folder);
  const std::unique_ptr<ByteStream> stream = open_stream(pipe, {.writer = 0.05, .silent = 0.2});
  const int writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  EXPECT_EQ(::write(writer, "some", 4), 4);
  std::array<std::byte, 10> part{};
  EXPECT_EQ(stream->read(part), 4U);
  const std::string text = refusal([&] { all_of(*stream); });
  EXPECT_TRUE(contains(text, "nothing comes from there")) << text;
  ::close(writer);
  EXPECT_EQ(stream->read(part), 0U);
}

TEST(Stream, AWriterThatComesLateIsHeard) {
  const TempFolder folder;
  const Path pipe = pipe_in(folder);
  const std::jthread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const int descriptor = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(::write(descriptor, "late ", 5), 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(::write(descriptor, "words", 5), 5);
    ::close(descriptor);
  });
  EXPECT_EQ(all_of(*open_stream(pipe, {.writer = 20, .silent = std::nullopt})), "late words");
}

TEST(Stream, ADeviceWithoutAnEndIsNotReadIntoMemory) {
  const std::string text = refusal([] { read_file("/dev/zero"); });
  EXPECT_TRUE(contains(text, "it is no file and gives more than 64.00 MiB")) << text;
  EXPECT_EQ(read_file("/dev/null"), "");
}

// A log that is a pipe would be waited for by the system, and lost.
TEST(Stream, OnlyARegularFileIsAppendedTo) {
  const TempFolder folder;
  const Path pipe = pipe_in(folder);
  EXPECT_TRUE(contains(refusal([&] { AppendedFile{pipe}; }), "it is a pipe that nobody reads"));
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_TRUE(contains(refusal([&] { AppendedFile{pipe}; }), "it is a pipe, and must be a regular file"));
  ::close(reader);
  EXPECT_TRUE(contains(refusal([&] { AppendedFile{"/dev/null"}; }), "it is a device"));
}

TEST(Space, WhatIsNeededAndFreeIsSaid) {
  const TempFolder folder;
  ASSERT_TRUE(free_bytes(folder.path()).has_value());
  EXPECT_NO_THROW(demand_space(folder.path(), 1, "it"));
  const std::string text = refusal([&] {
    demand_space(folder.path(), 3 << 20, "the text", [](const Path&) { return std::optional<std::uint64_t>(1 << 20); });
  });
  EXPECT_TRUE(contains(text, "the text needs 3.00 MiB, the file system has 1.00 MiB left")) << text;
  EXPECT_NO_THROW(demand_space(folder.path(), 3 << 20, "it", [](const Path&) { return std::optional<std::uint64_t>(); }));
}

}  // namespace
}  // namespace lockstep::io
