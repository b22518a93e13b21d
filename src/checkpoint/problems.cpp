#include "checkpoint/problems.h"

#include <fmt/format.h>

namespace lockstep::checkpoint {

void throw_first(std::vector<Problem> problems) {
  constexpr std::size_t most = 5;
  if (problems.size() > most) {
    problems[most] = {fmt::format("... and {} more tensors", problems.size() - most), ""};
    problems.resize(most + 1);
  }
  throw UserError(std::move(problems));
}

std::string use_another(const std::filesystem::path& folder) {
  return fmt::format(
      "use another checkpoint of the run (lockstep inspect RUN lists them); to resume from the one before, move {} away",
      folder.string());
}

}  // namespace lockstep::checkpoint
