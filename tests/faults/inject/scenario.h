#pragma once

// What is disturbed, and what must hold afterwards.

#include <functional>
#include <string>
#include <vector>

#include "faults/inject/site.h"

namespace lockstep::faults {

/// A folder after a command that was disturbed. The checks may go on with it.
struct Aftermath {
  Site& site;
  bool succeeded;      ///< the command said so: exit code 0
  const Tree& before;  ///< the folder when the command began
  const Tree& after;   ///< the folder after a command that nothing disturbed
  std::vector<std::string> violations = {};

  void demand(bool holds, const std::string& rule) {
    if (!holds) violations.push_back(rule);
  }
  /// Demands that a further command ends with exit code 0.
  void demand_success(const Words& words, const std::string& output = "");
  /// Demands that two trees are the same.
  void demand_same(const Tree& is, const Tree& expected, const std::string& what);
};

struct Scenario {
  std::string name;
  std::function<void(Site&)> set_up;  ///< makes the state before; throws when it cannot
  Words command;
  std::string output = {};                                  ///< a file of the folder that gets standard output
  std::function<bool(const std::string&)> tells = nullptr;  ///< whether what was printed there tells of the fault
  std::function<int(const Call&)> refused = nullptr;        ///< what the file system of this scenario cannot do: the errno, or 0
  std::function<void(Aftermath&)> check;
};

/// Scenarios of the commands that turn text into tokens.
std::vector<Scenario> data_scenarios();
/// Scenarios of what launch keeps.
std::vector<Scenario> launch_scenarios();
/// Scenarios of the commands that read a run: convert, generate, inspect.
std::vector<Scenario> model_scenarios();
/// Scenarios of train: saves, resume, retention, replacing.
std::vector<Scenario> training_scenarios();

/// Writes a tiny text to the file `name`. Every letter of the text occurs soon; `salt` makes it another text.
void write_text(const Site& site, const std::string& name, int salt);
/// Runs a command of a set-up; throws when it fails.
void must_run(Site& site, const Words& words);
/// `lockstep train` of a model that takes milliseconds, in the folder "run", with these settings too.
Words train_words(const Words& more);

}  // namespace lockstep::faults
