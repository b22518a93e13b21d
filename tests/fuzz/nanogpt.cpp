// nanoGPT's configuration files: lines of NAME = LITERAL. What they set is printed as a recipe, which can be read.

#include "app/settings/foreign/nanogpt.h"

#include <fstream>
#include <string>

#include "app/settings/config_file.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  static const TempFolder folder;
  const std::string path = folder / "train.py";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text_of(input);
  const settings::NanoGpt file = settings::read_nanogpt({path});
  app::RunConfig config;
  if (!settings::assign_all(config, file.defaults).empty()) ensure(false, "nanoGPT's own defaults keep our rules");
  if (!file.problems.empty() || !settings::assign_all(config, file.given).empty()) return;
  app::RunConfig again;
  ensure(app::read_config_text(app::to_toml(config), "config.toml", again).empty(), "what is printed can be read");
}

}  // namespace lockstep::fuzz
