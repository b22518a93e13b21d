#pragma once

// Layouts as answers show them.

#include <cstdint>
#include <string>
#include <vector>

#include "base/text/answer.h"
#include "planner/search.h"

namespace lockstep::app {

/// The rates of each device: useful TFLOPS, and their share of its peak without and with what is made again.
struct Use {
  double tflops, mfu, hfu;
};
Use use_of(const planner::SearchQuestion& question, const planner::Found& found);

/// "(7 G parameters) on h100: 2 x 8 devices; 512 samples of 4,096 tokens a step".
std::string asked_text(const planner::SearchQuestion& question);

/// Seconds in which ranks wait for each other.
double waiting_for_ranks(const planner::StepTime& time);

/// "dp=8 zero=3 ": the settings, without their groups.
std::string layout_text(const std::vector<std::string>& settings);

/// A table with a line for each layout. Its first column has `names`, or the layouts' places where there are none.
Table table_of(const planner::SearchQuestion& question, const std::vector<planner::Found>& layouts,
               const std::vector<std::string>& names = {});

/// Adds the days and the price of `tokens` to the answer; nothing where there are none.
void say_duration(const planner::SearchQuestion& question, double tokens, double price, const planner::Found& found,
                  Answer& answer);

}  // namespace lockstep::app
