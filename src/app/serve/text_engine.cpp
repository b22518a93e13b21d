#include "app/serve/text_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/published/published_files.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

/// The chat template: the one that was `said`, else what lies in the model's folder. Else it is what its run keeps of the model
/// that it began with. Special tokens come from the same place.
std::optional<data::ChatTemplate> chat_of(const std::string& said, const std::string& folder, const LoadedModel& loaded) {
  data::ModelTexts texts = io::is_folder(folder) ? data::texts_of(folder) : data::ModelTexts{};
  if (texts.empty()) texts = kept_texts(loaded.manifest.run, loaded.folder);
  if (said.empty()) return data::ChatTemplate::from_texts(texts);
  data::ChatTemplate chat = data::ChatTemplate::open(said);
  chat.take_tokens(texts);
  return chat;
}

/// Tokens that a pass reads beside texts that are written, and where none is: then the oldest prompt goes first, whole or not.
constexpr std::int64_t pass_rows = 128, prompt_rows = 512;

}  // namespace

TextEngine::TextEngine(const ModelOptions& from, const TextEngineOptions& options, Session& session, Log& log)
    : loaded_(load_model(from, options.context, session, log)) {
  if (!loaded_.tokenizer)
    throw UserError(fmt::format("{}, so it cannot read text", loaded_.no_tokenizer), "put the model's tokenizer.json beside it");
  chat_ = chat_of(options.chat_template, from.model, loaded_);
  loaded_.inference->prepack();
  const arch::ModelConfig& config = loaded_.inference->context().config;
  const std::int64_t longest = std::min(options.context, config.block_size);
  const std::int64_t positions = options.cache > 0 ? options.cache : std::max(longest, options.texts * longest / 4);
  batch_ = std::make_unique<train::TextBatch>(loaded_.inference->share(),
                                              train::BatchSize{.texts = options.texts,
                                                               .pages = model::pages_for(positions),
                                                               .rows = std::max(pass_rows, 2 * options.texts),
                                                               .rows_of_prompts = prompt_rows},
                                              session.team());
  batch_->declare(workspace_, cache_);
  Ledger ledger;
  workspace_.commit(session.runtime(), ledger);
  cache_.commit(session.runtime(), ledger);
  model_ = {.name = options.name.empty() ? io::whole_path(from.model).filename().string() : options.name,
            .vocabulary = config.vocabulary,
            .longest = std::min(longest, batch_->longest()),
            .tokenizer = loaded_.tokenizer.get(),
            .chat = chat_ ? &*chat_ : nullptr,
            .habits = text_habits(loaded_.manifest.run, loaded_.tokenizer.get(), config.vocabulary, log),
            .most_choices = options.texts};
  warn_of_undone(model_.habits, log);
}

}  // namespace lockstep::app
