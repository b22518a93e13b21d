#include "app/loaded_model.h"

#include "arch/config_json.h"
#include "checkpoint/find.h"
#include "checkpoint/reader.h"

namespace lockstep::app {

LoadedModel load_model(const std::string& path, const std::string& which, Session& session, Log& log) {
  checkpoint::Choice choice = checkpoint::choose_checkpoint(path, which);
  for (const std::string& reason : choice.passed_over) log.warning(reason);
  LoadedModel loaded;
  loaded.folder = choice.folder.string();
  loaded.manifest = std::move(choice.manifest);
  const arch::ModelConfig config = arch::model_from_json(loaded.manifest.model, loaded.folder);
  const Json* tokenizer = loaded.manifest.run.is_object() ? loaded.manifest.run.find("tokenizer") : nullptr;
  if (tokenizer != nullptr) loaded.tokenizer = data::make_tokenizer(*tokenizer);
  loaded.inference = std::make_unique<train::Inference>(config, DType::f32, session.runtime(), session.ops());
  loaded.inference->load(checkpoint::Reader(choice.folder), session.team());
  return loaded;
}

}  // namespace lockstep::app
