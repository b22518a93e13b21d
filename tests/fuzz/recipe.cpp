// Recipes: settings in TOML. What was read is printed, read again and the same.

#include <string>

#include "app/settings/config_file.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  app::RunConfig config;
  if (!app::read_config_text(text_of(input), "recipe.toml", config).empty()) return;
  const std::string printed = app::to_toml(config);
  app::RunConfig again;
  ensure(app::read_config_text(printed, "config.toml", again).empty(), "what is printed can be read");
  ensure(app::to_toml(again) == printed, "what is printed is what was read");
}

}  // namespace lockstep::fuzz
