#pragma once

// --layout and --ranks: how ranks share what a command does, in the words of `lockstep verify --help`.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/command_line.h"
#include "lab/layouts.h"

namespace lockstep::app {

struct LayoutOption {
  std::string words;
  std::int64_t ranks = 1;
  std::optional<lab::Layout> layout = {};  ///< behind read(); none: no words

  /// `meaning`: what the words say here; `shared`: what ranks of --ranks share.
  void declare(CommandLine& line, const std::string& meaning, const std::string& shared);
  /// The layout that the words name. `allowed`: these alone make sense; empty: all.
  void read(std::vector<Problem>& problems, const std::vector<std::string_view>& allowed = {});
  /// The number for RankOptions. Under mpiexec the ranks are there already.
  std::int64_t ranks_to_start() const;
};

}  // namespace lockstep::app
