#include <algorithm>
#include <iterator>

#include "app/settings/entry.h"

namespace lockstep::settings {
namespace {

using app::RunConfig;

/// The fields of a plan that are settings of `group`.
std::vector<Key> plan_keys(std::string_view group) {
  std::vector<Key> keys;
  for (const layout::FieldRow& row : layout::plan_fields()) {
    if (row.setting.starts_with(group)) keys.push_back(plan_key(row.field));
  }
  return keys;
}

void insert_before(std::vector<Key>& keys, std::string_view name, Key key) {
  keys.insert(std::ranges::find(keys, name, &Key::name), std::move(key));
}

}  // namespace

Key plan_key(layout::PlanField field, bool in_wordplay) {
  const layout::FieldRow& row = layout::row_of(field);
  const Value<layout::PlanWish>& value = row.value;
  const OnResume mark = row.bits == layout::FieldBits::same ? loose : row.bits == layout::FieldBits::other ? learns : fixed;
  const auto get = [&value](const RunConfig& config) { return value.get(plan_wish(config)); };
  const auto set = [&value](RunConfig& config, const Json& given) {
    layout::PlanWish wish = plan_wish(config);
    value.set(wish, given);
    set_plan_wish(config, wish);
  };
  return {row.setting, value.type, value.nullable, value.rule, mark, row.unit, row.meaning, in_wordplay, get, set};
}

std::vector<Key> parallel_keys() {
  std::vector<Key> keys = plan_keys("parallel.");
  insert_before(keys, "parallel.ranks_per_host",
                key<&RunConfig::parallel, &RunConfig::Parallel::broadcast_start>(
                    "parallel.broadcast_start", Rule::any(), loose, "",
                    "rank 0 sends the state that the run starts with to all ranks. With false each draws or reads its own, and "
                    "all are compared. With null drawn start values are sent, files are read by all ranks"));
  std::vector<Key> servers{
      key<&RunConfig::parallel, &RunConfig::Parallel::servers>(
          "parallel.servers", Rule::between(1, 1023), loose, "ranks",
          "of train.backend=ps: the last ranks share the parameters by ranges and serve the others, which train; null: 1"),
      key<&RunConfig::parallel, &RunConfig::Parallel::ps>(
          "parallel.ps", Rule::any(), learns, "",
          "of train.backend=ps. Servers add up all workers' gradients and update once (as DDP does), average weights that each "
          "worker has updated, or update as each gradient arrives. Null: gradients"),
      key<&RunConfig::parallel, &RunConfig::Parallel::staleness>(
          "parallel.staleness", Rule::between(0, kMany), learns, "steps",
          "of parallel.ps=async: how far a worker may be ahead of the slowest one; 0: not at all; null: no bound")};
  std::ranges::move(servers, std::back_inserter(keys));
  return keys;
}

std::vector<Key> memory_keys() {
  using Memory = RunConfig::Memory;
  std::vector<Key> keys = plan_keys("memory.");
  insert_before(keys, "memory.offload_optimizer",
                key<&RunConfig::memory, &Memory::limit>(
                    "memory.limit", Rule::any(), loose, "bytes",
                    "what the ranks of a host may take together (4GiB); null: no limit. A run that needs more is refused before "
                    "it starts, with the settings that would save how much"));
  insert_before(
      keys, "memory.tiles",
      key<&RunConfig::memory, &Memory::nvme_path>("memory.nvme_path", Rule::any(), loose, "",
                                                  "folder on a fast disk for what is offloaded; its files are unlinked at once"));
  return keys;
}

}  // namespace lockstep::settings
