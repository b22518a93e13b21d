#include "data/shards.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace lockstep::data {

std::string shard_name(int shard, int shards) { return fmt::format("train-{:05}-of-{:05}.bin", shard, shards); }

std::vector<std::unique_ptr<TokenWriter>> cut_shards(const TokenFile& tokens, int shards, const io::Path& folder) {
  if (tokens.tokens() < shards) {
    throw UserError(fmt::format("--shards {}: the training text has {} tokens", shards, format_count(tokens.tokens())),
                    "cut it into fewer shards");
  }
  constexpr std::int64_t piece = 1 << 18;  // tokens at a time
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> mask;
  std::vector<std::byte> packed;
  std::vector<std::unique_ptr<TokenWriter>> writers;
  std::int64_t at = 0;
  for (int shard = 0; shard < shards; ++shard) {
    const std::int64_t end = at + tokens.tokens() / shards + (shard < tokens.tokens() % shards ? 1 : 0);
    TokenWriter& writer = *writers.emplace_back(std::make_unique<TokenWriter>(folder / shard_name(shard, shards)));
    if (tokens.masked()) writer.begin_mask();
    for (; at < end; at += std::ssize(ids)) {
      ids.resize(static_cast<std::size_t>(std::min(piece, end - at)));
      tokens.read(at, ids);
      pack(ids, tokens.format(), packed);
      if (tokens.masked()) {
        tokens.apply_mask(at, ids);
        mask.resize(ids.size());
        std::transform(ids.begin(), ids.end(), mask.begin(), [](std::int32_t id) { return std::uint8_t{id >= 0}; });
      }
      writer.append(packed, std::ssize(ids), 0, mask);
    }
    writer.sync();
  }
  return writers;
}

std::string demand_shard(const io::Path& folder, int shard, int shards) {
  const std::optional<TokenDescription> description = read_description(folder);
  std::string name = shard_name(shard, shards);
  if (!description || description->find(name) == nullptr) {
    throw UserError(
        fmt::format("data.shards = precut: {} has no {}, the shard of rank {} of {}", folder.string(), name, shard, shards),
        fmt::format("cut the text: lockstep prepare TEXT --shards {} --out {}", shards, folder.string()));
  }
  return name;
}

TokenFile open_shard(const io::Path& folder, int shard, int shards) {
  const std::string name = demand_shard(folder, shard, shards);
  return open_described(folder, read_description(folder).value(), name);
}

}  // namespace lockstep::data
