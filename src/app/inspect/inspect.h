#pragma once

// How `lockstep inspect PATH` shows what is in a path.

#include <string>

#include "base/json.h"

namespace lockstep::app {

/// What inspect_facts() found, for people.
std::string inspect_text(const Json& facts);

}  // namespace lockstep::app
