#include "device/choose_device.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cuda/cuda_runtime.h"
#include "device/runtime.h"

namespace lockstep {
namespace {

TEST(ChooseDevice, TakesTheKindThatIsNamed) {
  EXPECT_EQ(choose_device("cpu", 3), Device{});
  EXPECT_EQ(choose_device("cuda", 0), (Device{DeviceKind::cuda, 0}));
  EXPECT_THROW(choose_device("tpu", 0), UserError);
  for (const char* name : {"cpu", "cuda"}) EXPECT_EQ(name_of(choose_device(name, 0).kind), name);
}

TEST(ChooseDevice, NoneNamedIsTheProcessor) { EXPECT_EQ(choose_device("", 0), Device{}); }

// What is missing says so, and what to do.
TEST(ChooseDevice, AnAbsentDeviceIsNotOpened) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU";
  try {
    open_runtime(choose_device("cuda", 0));
    FAIL() << "a GPU was opened";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("train.device=cuda"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("train.device=cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
