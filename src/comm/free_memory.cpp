#include "comm/free_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "comm/text.h"

namespace lockstep::comm {
namespace {

constexpr std::int64_t undeclared = std::int64_t{16} << 20;  // of each rank

std::string name_of_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

}  // namespace

std::string MemoryShortage::text() const {
  return fmt::format("{} {}, and {} of its memory are free ({})",
                     ranks == 1 ? "host " + host + ": it needs" : fmt::format("the {} ranks of host {} need", ranks, host),
                     bytes_text(needed), bytes_text(free.bytes), free.source);
}

std::optional<MemoryShortage> memory_shortage(Communicator& world, std::int64_t bytes,
                                              const std::optional<io::FreeMemory>& free) {
  const Json mine(
      Json::Array{Json(name_of_host()), Json(bytes), free ? Json(free->bytes) : Json(), free ? Json(free->source) : Json()});
  struct Host {
    int ranks = 0;
    std::int64_t needed = 0;
    std::optional<io::FreeMemory> free;
  };
  std::map<std::string, Host> hosts;
  for (const std::string& text : all_texts(world, mine.dump())) {
    const Json rank = Json::parse(text);
    const Json::Array& said = rank.array();
    Host& host = hosts[said[0].string()];
    ++host.ranks;
    host.needed += said[1].integer() + undeclared;
    if (said[2].is_null()) continue;
    if (!host.free || said[2].integer() < host.free->bytes) host.free = io::FreeMemory{said[2].integer(), said[3].string()};
  }
  std::optional<MemoryShortage> most;
  for (const auto& [name, host] : hosts) {
    if (!host.free || host.needed <= host.free->bytes) continue;
    if (!most || host.needed - host.free->bytes > most->needed - most->free.bytes)
      most = MemoryShortage{name, host.ranks, host.needed, *host.free};
  }
  return most;
}

void demand_free_memory(Communicator& world, std::int64_t bytes, const std::string& what, const std::string& remedy) {
  if (const auto shortage = memory_shortage(world, bytes, io::free_memory()))
    throw UserError(fmt::format("{}: {}", what, shortage->text()), remedy);
}

}  // namespace lockstep::comm
