#pragma once

// A folder where the program is run, as a user would run it: commands with relative paths.

#include <functional>
#include <string>
#include <vector>

#include "faults/inject/tree.h"
#include "faults/trace/tracer.h"

namespace lockstep::faults {

using Words = std::vector<std::string>;

class Site {
 public:
  /// Folder and program are absolute; what commands write to standard error goes into `folder`.said.
  Site(Path program, Path folder);

  const Path& folder() const { return folder_; }
  /// Runs lockstep with these words in the folder. Words NAME=VALUE in front are environment variables, as in a shell. Standard
  /// output goes to the file `output` of the folder where that is named.
  Outcome run(const Words& words, const std::string& output = "");
  Outcome trace(const Words& words, const std::string& output, TraceOptions options);
  /// What the last command wrote to standard error.
  std::string said() const;
  /// Makes the folder what `tree` says.
  void reset(const Tree& tree) const;

 private:
  Outcome start(const Words& words, const std::string& output, const std::function<Outcome(const Body&)>& launch) const;
  Path program_, folder_, said_;
};

}  // namespace lockstep::faults
