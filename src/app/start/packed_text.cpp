#include "app/start/packed_text.h"

#include <fmt/format.h>

#include "app/settings/keys.h"

namespace lockstep::app {

std::vector<std::string> settings_for(const data::Packing& packing) {
  return {fmt::format("model.block_size={}", packing.length), "data.order=partition", "data.documents=true"};
}

std::vector<Problem> check_packed(const RunConfig& config, const data::Packing& packing) {
  std::vector<Problem> problems;
  for (const std::string& setting : settings_for(packing)) {
    const std::size_t sign = setting.find('=');
    const std::string name = setting.substr(0, sign), wanted = setting.substr(sign + 1);
    const std::string has = settings::shown(settings::find_key(name)->get(config));
    if (has == wanted) continue;
    problems.push_back({fmt::format("{} = {}: the windows of {} have whole documents of {} tokens together", name, has,
                                    data_folder(config), packing.length),
                        setting});
  }
  return problems;
}

}  // namespace lockstep::app
