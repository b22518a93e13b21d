#include "app/start/text_ends.h"

#include <memory>
#include <utility>

#include "app/published/published_files.h"
#include "app/published/text_habits.h"
#include "comm/agreement.h"
#include "data/tokenizer_choice.h"

namespace lockstep::app {

Json published_of(const RunConfig& config, const Start& start, const data::Corpus& corpus, comm::Communicator& world) {
  const data::Tokenizer* const text = corpus.tokenizer.get();
  Json kept;
  const auto take = [&](Json facts, const data::Tokenizer* source) {
    // A run that goes on is compared with what it was.
    if (!start.resumes) data::demand_same_tokens(text, data_folder(config), source, config.train.init_from.text);
    kept = kept_facts(std::move(facts), source, text);
  };
  comm::together(world, [&] {
    if (start.published) {
      const checkpoint::huggingface::Folder folder(config.train.init_from.text);
      const data::PublishedTokenizer source = data::find_published_tokenizer(folder.path());
      take(published_facts(folder), source.tokenizer.get());
    } else if (start.checkpoint && start.checkpoint->manifest.run.is_object()) {
      const Json& run = start.checkpoint->manifest.run;
      const Json *facts = run.find(published_key), *tokenizer = run.find("tokenizer");
      const std::unique_ptr<data::Tokenizer> source = tokenizer != nullptr ? data::make_tokenizer(*tokenizer) : nullptr;
      take(facts != nullptr ? *facts : Json(), source.get());
    }
    static_cast<void>(ends_of(kept));  // refuses what nobody could read back
    if (corpus.chats) keep_template(kept, *corpus.chats);
  });
  return kept;
}

std::vector<std::int32_t> sample_ends(const data::Corpus& corpus, const Json& published, std::int64_t vocabulary, Log& log) {
  Json run(Json::Object{{published_key, published}});
  set_taught_ends(run, corpus);
  return text_habits(run, corpus.tokenizer.get(), vocabulary, log).ends;
}

}  // namespace lockstep::app
