#include "train/report/metrics_file.h"

#include <cstddef>

namespace lockstep::train {

Json to_json(const Metrics& m) {
  Json json = Json::Object{{"step", m.step},
                           {"loss", m.loss},
                           {"dt", m.dt},
                           {"dtf", m.dtf},
                           {"dtb", m.dtb},
                           {"sps", m.sps},
                           {"sps_per_gpu", m.sps_per_gpu},
                           {"tps", m.tps},
                           {"tps_per_gpu", m.tps_per_gpu},
                           {"mfu", m.mfu},
                           {"lr", m.learning_rate},
                           {"grad_norm", m.gradient_norm},
                           {"update_seconds", m.update_seconds},
                           {"data_wait", m.data_wait},
                           {"exposed_seconds", m.exposed_seconds}};
  Json waited;
  for (std::size_t kind = 0; kind < m.waited.size(); ++kind) {
    if (m.waited[kind] > 0) waited.set(std::string(comm::name_of(static_cast<comm::Collective>(kind))), m.waited[kind]);
  }
  if (waited.is_object()) json.set("waited", waited);
  if (m.pipeline) json.set("pipeline", Json::Object{{"seconds", m.pipeline->all}, {"waiting", m.pipeline->waiting}});
  json.set("finite", m.finite);
  if (const auto& s = m.staleness)
    json.set("staleness", Json::Object{{"updates", s->updates}, {"mean", s->mean}, {"max", s->greatest}});
  if (const auto& o = m.offload)
    json.set("offload", Json::Object{{"read_bytes", o->read}, {"written_bytes", o->written}, {"wait_seconds", o->waited}});
  if (m.ranks.empty()) return json;
  Json ranks;
  for (const auto& [name, s] : m.ranks)
    ranks.set(name, Json::Object{{"mean", s.mean}, {"min", s.least}, {"max", s.greatest}, {"std", s.deviation}});
  json.set("ranks", ranks);
  return json;
}

Json to_json(const Losses& losses) {
  return Json::Object{{"eval", true}, {"step", losses.step}, {"train_loss", losses.train}, {"val_loss", losses.validation}};
}

}  // namespace lockstep::train
