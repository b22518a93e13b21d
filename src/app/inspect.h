#pragma once

// `lockstep inspect PATH`: what is in a checkpoint, a run, a safetensors file or prepared text.

#include <string>

#include "app/command.h"
#include "base/json.h"

namespace lockstep::app {

Command inspect_command();

/// What inspect_facts() found, for people.
std::string inspect_text(const Json& facts);

}  // namespace lockstep::app
