#pragma once

// The day that a command takes for today.

#include <ctime>
#include <string>

namespace lockstep::app {

/// What --date says, as 2026-11-25; today where it is empty. Throws UserError for another text.
std::tm day_of(const std::string& date);

}  // namespace lockstep::app
