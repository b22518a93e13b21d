#pragma once

// The machine that a question is about.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text/columns.h"
#include "planner/machine.h"

namespace lockstep::app {

/// A preset by its name, or a TOML file whose keys are those of machine_keys(), with base = "a100" for what it leaves out.
/// `nodes`: instead of the machine's own number; 0: as it says. Throws UserError with everything that is wrong.
planner::Machine named_machine(const std::string& name, std::int64_t nodes);

/// The same with so many devices in all: a part of a node, or whole nodes; nothing: as the machine says. Throws UserError for
/// others.
planner::Machine with_devices(planner::Machine machine, std::optional<std::int64_t> devices);
/// "a100, ..., or machine.toml": what named_machine() takes.
std::string machine_names();

/// The text of a file that says everything of the machine. Numbers are rounded to six digits.
std::string machine_text(const planner::Machine& machine);

/// The keys of a machine's file and what they mean.
std::vector<HelpRow> machine_keys();

}  // namespace lockstep::app
