#include "train/report/metrics_file.h"

#include <cstddef>

namespace lockstep::train {

namespace {

/// {"gradients": {"all_reduce": {"sent_bytes": ..., "waited": ..., "hidden": ...}}}, without members that are zero.
Json to_json(const comm::Traffic& traffic) {
  Json purposes;
  for (std::size_t p = 0; p < comm::kPurposes; ++p) {
    Json kinds;
    for (std::size_t k = 0; k < comm::kCollectives; ++k) {
      const comm::Exchanged& some = traffic.all[p][k];
      if (some.sent == 0 && some.waited == 0) continue;
      kinds.set(std::string(comm::name_of(static_cast<comm::Collective>(k))),
                Json::Object{{"sent_bytes", some.sent}, {"waited", some.waited}, {"hidden", some.hidden}});
    }
    if (kinds.is_object()) purposes.set(std::string(comm::name_of(static_cast<comm::Purpose>(p))), kinds);
  }
  return purposes;
}

void put(Json& json, const std::optional<SampleFigures>& figures) {
  for (std::size_t i = 0; figures && i < figures->names.size(); ++i) json.set(std::string(figures->names[i]), figures->values[i]);
}

}  // namespace

Json to_json(const Metrics& m) {
  Json json = Json::Object{{"step", m.step},
                           {"loss", m.loss},
                           {"targets", m.targets},
                           {"dt", m.dt},
                           {"dtf", m.dtf},
                           {"dtb", m.dtb},
                           {"sps", m.sps},
                           {"sps_per_gpu", m.sps_per_gpu},
                           {"tps", m.tps},
                           {"tps_per_gpu", m.tps_per_gpu},
                           {"mfu", m.mfu},
                           {"hfu", m.hfu},
                           {"tflops_per_gpu", m.tflops_per_gpu},
                           {"lr", m.learning_rate},
                           {"grad_norm", m.gradient_norm},
                           {"update_seconds", m.update_seconds},
                           {"data_wait", m.data_wait},
                           {"exposed_seconds", m.exposed_seconds}};
  if (m.late) {
    json.set("late_rank", m.late->rank);
    json.set("lost_seconds", m.late->seconds);
  }
  put(json, m.figures);
  const comm::CollectiveSeconds by_kind = m.exchanged.waited();
  Json waited;
  for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
    if (by_kind[kind] > 0) waited.set(std::string(comm::name_of(static_cast<comm::Collective>(kind))), by_kind[kind]);
  }
  if (waited.is_object()) json.set("waited", waited);
  if (const Json exchanged = to_json(m.exchanged); exchanged.is_object()) json.set("exchanged", exchanged);
  if (m.pipeline) json.set("pipeline", Json::Object{{"seconds", m.pipeline->all}, {"waiting", m.pipeline->waiting}});
  json.set("finite", m.finite);
  if (const auto& n = m.noise; n && n->steps > 0) {
    json.set("noise", Json::Object{{"steps", n->steps}, {"gradient_square", n->square}, {"variance", n->variance}});
    if (const auto scale = n->scale()) json.set("noise_scale", *scale);
  }
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
  Json json = Json::Object{{"eval", true}, {"step", losses.step}, {"train_loss", losses.train}, {"val_loss", losses.validation}};
  put(json, losses.figures);
  return json;
}

void SamplesFile::started(const RunState& state) { step_ = state.step; }

void SamplesFile::sampled(const std::optional<std::string>& text) {
  if (text) file_.append(Json(Json::Object{{"step", step_}, {"text", *text}, {"run", run_}}).dump() + "\n");
}

}  // namespace lockstep::train
