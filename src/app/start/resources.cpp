#include "app/start/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

constexpr const char* kFile = "resources.json";

}  // namespace

std::int64_t Resources::all_bytes() const { return std::reduce(taken.begin(), taken.end(), beside); }

std::int64_t Resources::kept_bytes() const {
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < kMemoryKinds.size(); ++i) {
    if (kMemoryKinds[i] != MemoryKind::activations && kMemoryKinds[i] != MemoryKind::workspace) kept += taken[i];
  }
  return kept;
}

std::array<std::int64_t, 6> by_kind(const Ledger& ledger) {
  std::array<std::int64_t, 6> bytes{};
  std::ranges::transform(kMemoryKinds, bytes.begin(), [&](MemoryKind kind) { return ledger.total(kind); });
  return bytes;
}

void write_resources(const io::Path& folder, const Resources& resources) {
  Json memory;
  for (std::size_t i = 0; i < kMemoryKinds.size(); ++i) memory.set(std::string(name_of(kMemoryKinds[i])), resources.taken[i]);
  const Json json(Json::Object{{"ranks", resources.ranks},
                               {"servers", resources.servers},
                               {"ranks_per_host", resources.ranks_per_host},
                               {"threads", resources.threads},
                               {"device", resources.device},
                               {"vocabulary", resources.vocabulary},
                               {"peak_flops", resources.peak_flops},
                               {"training_bytes", std::move(memory)},
                               {"batches_and_samples_bytes", resources.beside},
                               {"disk_bytes", resources.disk},
                               {"kept_parts", resources.kept_parts}});
  io::replace_file(folder / kFile, json.dump(2) + "\n");
}

Resources read_resources(const io::Path& folder) {
  const io::Path path = folder / kFile;
  if (!io::exists(path)) {
    throw UserError(
        fmt::format("{}: there is none; the run has not begun, or an older version of this program made it", path.string()),
        "resume it for a few steps, or train it again");
  }
  const Json json = Json::parse(io::read_document(path), path.string());
  Resources resources{.ranks = json.at("ranks").integer(),
                      .servers = json.at("servers").integer(),
                      .ranks_per_host = json.at("ranks_per_host").integer(),
                      .threads = json.at("threads").integer(),
                      .device = json.at("device").string(),
                      .vocabulary = json.at("vocabulary").integer(),
                      .peak_flops = json.at("peak_flops").number(),
                      .beside = json.at("batches_and_samples_bytes").integer()};
  for (const auto& [key, number] : {std::pair("disk_bytes", &resources.disk), std::pair("kept_parts", &resources.kept_parts)}) {
    if (const Json* value = json.find(key)) *number = value->integer();  // older versions had none
  }
  const Json& memory = json.at("training_bytes");
  for (std::size_t i = 0; i < kMemoryKinds.size(); ++i) resources.taken[i] = memory.at(name_of(kMemoryKinds[i])).integer();
  constexpr std::int64_t most = 1 << 30;
  for (const auto& [key, count] : {std::pair("ranks", resources.ranks), std::pair("threads", resources.threads),
                                   std::pair("vocabulary", resources.vocabulary)}) {
    if (count < 1 || count > most)
      throw UserError(fmt::format("{}: {} = {}: must be from 1 to {}", path.string(), key, count, most), "train the run again");
  }
  return resources;
}

}  // namespace lockstep::app
