#include "data/fingerprint.h"

#include <fmt/format.h>

#include <array>

#include "data/token_description.h"
#include "io/sha256.h"

namespace lockstep::data {

Json fingerprint(const io::Path& folder, Log& log) {
  constexpr std::array<const char*, 2> names{"train.bin", "val.bin"};
  const std::optional<TokenDescription> description = read_description(folder);
  if (!description) log.info(fmt::format("Computing the SHA-256 of {}'s files, which no tokens.json tells", folder.string()));
  Json hashes;
  for (const char* name : names) {
    const TokenFileFacts* facts = description ? description->find(name) : nullptr;
    hashes.set(name, facts != nullptr ? facts->sha256 : io::sha256_of_file(described_path(folder, name)));
    if (facts != nullptr && facts->mask) hashes.set(facts->mask->name, facts->mask->sha256);
  }
  return hashes;
}

}  // namespace lockstep::data
