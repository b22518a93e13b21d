#pragma once

// Threads of the program.

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep {

/// A thread that does `work`, under a name of at most 15 characters that debuggers show. Throws SystemError that says what could
/// not be started, and why.
std::jthread start_thread(const std::string& name, std::function<void(const std::stop_token&)> work);

}  // namespace lockstep
