#include "app/settings/backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "app/settings/choices.h"

namespace lockstep::settings {
namespace {

using enum app::BackendKind;
constexpr std::array<Backend, 8> table{{{ddp, 0, false},
                                        {fsdp, 3, true},
                                        {zero1, 1, true},
                                        {zero2, 2, true},
                                        {zero3, 3, true},
                                        {deepspeed, 1, true, true},
                                        {ds, 1, true, true},
                                        {ps, 0, false}}};

}  // namespace

const Backend& find_backend(app::BackendKind kind) {
  const auto* const found = std::ranges::find(table, kind, &Backend::kind);
  ensure(found != table.end(), "every backend is in the table");
  return *found;
}

std::vector<Problem> check_backend(const app::RunConfig& config) {
  std::vector<Problem> problems;
  const Backend& backend = find_backend(config.train.backend);
  const std::string_view word = word_of(config.train.backend);
  const std::optional<std::string>& file = config.train.ds_config_path;
  if (file && !backend.deepspeed) {
    problems.push_back({fmt::format("train.ds_config_path = {}: train.backend = {} has no such file", *file, word),
                        "train.backend=deepspeed, or leave the file out"});
  }
  if (backend.names && !file && config.memory.zero && *config.memory.zero != backend.zero) {
    problems.push_back({fmt::format("train.backend = {} means memory.zero = {}, but memory.zero = {} is asked for", word,
                                    backend.zero, *config.memory.zero),
                        fmt::format("train.backend=DDP, or memory.zero={}", backend.zero)});
  }
  const int level = app::zero_level(config);
  if (level > 0 && config.parallel.broadcast_start.value_or(false)) {
    problems.push_back(
        {fmt::format("parallel.broadcast_start = true: with memory.zero = {} no rank has all that the others need", level),
         "parallel.broadcast_start=null: each rank draws or reads its part"});
  }
  return problems;
}

}  // namespace lockstep::settings
