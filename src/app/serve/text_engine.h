#pragma once

// A trained model that writes texts side by side: what `serve` and `chat` share.

#include <memory>
#include <optional>
#include <string>

#include "app/loaded_model.h"
#include "app/serve/api_request.h"
#include "data/chat/chat_template.h"
#include "train/serving/text_batch.h"

namespace lockstep::app {

struct TextEngineOptions {
  std::string name;           ///< empty: that of the model's folder
  std::string chat_template;  ///< empty: the model's own, if it has one
  std::int64_t context = 4096, texts = 1;
  std::int64_t cache =
      0;  ///< tokens that keys and values are kept of; 0: a quarter of what all texts may have, and one whole text
};

class TextEngine {
 public:
  /// Takes all memory that it needs. Throws UserError for a model that cannot write text. `session` has one rank.
  TextEngine(const ModelOptions& from, const TextEngineOptions& options, Session& session, Log& log);
  const ServedModel& model() const { return model_; }
  train::TextBatch& batch() { return *batch_; }
  std::int64_t cache_bytes() const { return cache_.bytes(); }
  std::int64_t weight_bytes() const { return loaded_.inference->weight_bytes(); }

 private:
  LoadedModel loaded_;
  std::optional<data::ChatTemplate> chat_;
  std::unique_ptr<train::TextBatch> batch_;
  Arena workspace_{"serving", MemoryKind::workspace}, cache_{"serving_cache", MemoryKind::workspace};
  ServedModel model_;
};

}  // namespace lockstep::app
