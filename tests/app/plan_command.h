#pragma once

// `lockstep plan` as a test asks it.

#include <gtest/gtest.h>

#include <string>

#include "app/cli/commands.h"
#include "base/error.h"

namespace lockstep::app {

/// What `lockstep plan` answers.
inline std::string printed(const Arguments& arguments) {
  testing::internal::CaptureStdout();
  const int code = plan_command().run(arguments);
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  return text;
}

/// The same with one blank where columns are aligned by several.
inline std::string told(const Arguments& arguments) {
  std::string text;
  for (const char c : printed(arguments)) {
    if (c != ' ' || (!text.empty() && text.back() != ' ' && text.back() != '\n')) text += c;
  }
  return text;
}

/// Why `lockstep plan` answers nothing.
inline std::string refusal(const Arguments& arguments) {
  testing::internal::CaptureStdout();
  std::string text;
  try {
    plan_command().run(arguments);
  } catch (const UserError& error) {
    text = error.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << "nothing is printed before a refusal";
  return text;
}

}  // namespace lockstep::app
