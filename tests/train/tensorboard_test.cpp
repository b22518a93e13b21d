#include "train/report/tensorboard.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <csignal>

#include "base/error.h"
#include "support/event_file.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using support::EventReader;

TEST(EventFile, HoldsWhatWasAdded) {
  const TempFolder folder;
  const double before = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EventFile file(folder / "tensorboard", 0);
  const std::array<Scalar, 2> two{{{"loss/train", 3.25}, {"lr", 6e-4}}};
  file.add(10, two);
  const std::array<Scalar, 1> one{{{"loss/val", -1.5}}};
  file.add(std::int64_t{1} << 40, one);
  // Nothing waits to be written: this is what a crash leaves.
  const std::vector<support::SummaryEvent> events = EventReader::read(file.path());
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].session_status, 1);
  EXPECT_EQ(events[1].step, 0);
  EXPECT_EQ(events[2].step, 10);
  EXPECT_EQ(events[2].values, (std::map<std::string, float>{{"loss/train", 3.25F}, {"lr", 6e-4F}}));
  EXPECT_EQ(events[3].step, std::int64_t{1} << 40);
  EXPECT_EQ(events[3].values.at("loss/val"), -1.5F);
  for (const support::SummaryEvent& event : events) {
    EXPECT_GE(event.wall_time, before);
    EXPECT_LT(event.wall_time, before + 3600);
  }
}

TEST(EventFile, EveryOneHasAFileOfItsOwn) {
  const TempFolder folder;
  const EventFile first(folder.path(), 0), second(folder.path(), 5);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(EventReader::files(folder.path()).size(), 2U);
  EXPECT_EQ(EventReader::read(second.path())[1].step, 5);
}

TEST(EventFile, NamesSortInTheOrderOfTheFiles) {
  const TempFolder folder;
  std::vector<std::filesystem::path> made;
  for (int i = 0; i < 200; ++i) made.emplace_back(EventFile(folder.path(), i).path());
  EXPECT_EQ(EventReader::files(folder.path()), made);
}

TEST(EventFile, ACutOffRecordSpoilsNoOther) {
  const TempFolder folder;
  EventFile file(folder.path(), 0);
  const std::array<Scalar, 1> one{{{"loss/val", 1}}};
  file.add(1, one);
  file.add(2, one);
  std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 1);
  EXPECT_EQ(EventReader::read(file.path()).size(), 3U);
}

TEST(EventFile, SaysWhereItCannotWrite) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(EventFile(folder / "file", 0), UserError);
  EventFile file(folder.path(), 0);
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit limit{100, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::array<Scalar, 1> one{{{"a tag that is longer than what is left of the file's allowance", 1}}};
  std::string message;
  try {
    file.add(1, one);
  } catch (const UserError& error) {
    message = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("cannot write " + file.path().string()), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep::train
