#include "train/saving/lost_folder.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/shell.h"
#include "checkpoint/find.h"

namespace lockstep::train {

void demand_place(const io::HeldFolder& folder, std::int64_t step, std::optional<std::int64_t> checkpoint) {
  if (folder.in_place()) return;
  const std::optional<io::Path> now = folder.found();
  std::string text = fmt::format("{}: this folder was {} while the run wrote into it, so the run ends after step {}. ",
                                 folder.path().string(), now ? "renamed to " + now->string() : "removed", step);
  if (!checkpoint) throw SystemError(text + "It had saved no checkpoint");
  const io::Path name = io::Path(checkpoint::checkpoints_folder) / checkpoint::folder_name(*checkpoint);
  if (!now) throw SystemError(text + fmt::format("Its last checkpoint, {}, was in it", (folder.path() / name).string()));
  throw SystemError(text + fmt::format("Its last checkpoint is {}\n  -> go on with: {}", (*now / name).string(),
                                       own_command({"train", "log.dir=" + now->string(), "train.init_from=resume"})));
}

}  // namespace lockstep::train
