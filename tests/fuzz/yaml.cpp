// YAML of other programs' configurations.

#include "app/settings/foreign/yaml.h"

#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const Json value = settings::json_from_yaml(text_of(input), "fuzz.yaml");
  ensure(!value.dump().empty(), "what is read is a value");
}

}  // namespace lockstep::fuzz
