#pragma once

// Helpers for short runs of verify on a layout.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lab/verify/faulty_world.h"
#include "lab/verify/verify.h"

namespace lockstep::lab {

/// The model of this name with fewer blocks.
inline VerifyModel small_model(std::string_view name = "gpt2", DType type = DType::f32) {
  VerifyModel model = verify_model(name, type);
  model.config.layers = 3;
  return model;
}

inline std::vector<LayoutReport> reports_of(const VerifyModel& model, const std::vector<std::string>& layouts,
                                            const TrialParts& parts = {}) {
  VerifyOptions options{.models = {model}, .layouts = {}, .steps = 2};
  std::vector<Problem> problems;
  for (const std::string& text : layouts) options.layouts.push_back(layout_from(text, problems).value());
  EXPECT_TRUE(check(options).empty());
  std::size_t told = 0;
  std::vector<LayoutReport> reports = verify(options, [&](const LayoutReport&) { ++told; }, parts);
  EXPECT_EQ(told, reports.size());
  return reports;
}

inline TrialParts with_fault(const Fault& fault) {
  TrialParts parts;
  parts.world = [fault](comm::Communicator& world) { return std::make_unique<FaultyWorld>(world, fault); };
  return parts;
}

}  // namespace lockstep::lab
