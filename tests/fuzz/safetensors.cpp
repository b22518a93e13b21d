// Headers of safetensors files: what is read from one is trusted in nothing.

#include "io/safetensors.h"

#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const io::SafetensorsHeader header = io::parse_safetensors(input, input.size(), "input");
  for (const io::SafetensorsEntry& entry : header.entries) {
    ensure(entry.offset <= input.size() && entry.bytes <= input.size() - entry.offset, "a tensor lies in its file");
    ensure(header.find(entry.name) == &entry, "a tensor is found by its name");
  }
}

}  // namespace lockstep::fuzz
