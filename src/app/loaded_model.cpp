#include "app/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/published/published_files.h"
#include "app/settings/run_config.h"
#include "app/start/same_run.h"
#include "arch/config_json.h"
#include "arch/parameters.h"
#include "checkpoint/find.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/reader.h"
#include "comm/agreement.h"
#include "comm/free_memory.h"
#include "data/tokenizer_choice.h"

namespace lockstep::app {
namespace {

/// Published models are made for texts far longer than most: without a word about it, this much of one is read at a time.
constexpr std::int64_t usual_context = 1024;

/// The session's ranks have the model in groups of tp x pp, in memory taken for it. Throws UserError for numbers that they cannot
/// have.
void make_room(LoadedModel& loaded, const arch::ModelConfig& config, DType type, const ReadingNeeds& needs, Session& session) {
  const int ranks = session.world().size();
  std::vector<Problem> problems;
  const auto divide = [&](const std::string& name, std::int64_t degree) {
    if (degree >= 1 && ranks % degree == 0) return;
    problems.push_back(
        {fmt::format("{}: {} rank{} {} not divide by it", name, ranks, ranks == 1 ? "" : "s", ranks == 1 ? "does" : "do"),
         "give a number of ranks that is a multiple of it: --ranks"});
  };
  divide(fmt::format("--tp {}", needs.tp), needs.tp);
  divide(fmt::format("--pp {}", needs.pp), needs.pp);
  if (problems.empty()) divide(fmt::format("--tp {} x --pp {}", needs.tp, needs.pp), needs.tp * needs.pp);
  if (const std::int64_t most = std::min({config.heads, config.ffn_width, config.vocabulary}); needs.tp > most) {
    problems.push_back(
        {fmt::format("--tp {}: the model has {} heads, {} feed-forward features and {} tokens, so a rank would get none",
                     needs.tp, config.heads, config.ffn_width, config.vocabulary),
         fmt::format("--tp {} or less", most)});
  }
  if (needs.pp > config.layers) {
    problems.push_back({fmt::format("--pp {}: the model has {} layers, and every stage needs one", needs.pp, config.layers),
                        fmt::format("--pp {} or less", config.layers)});
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  const int tp = static_cast<int>(needs.tp), pp = static_cast<int>(needs.pp);
  const std::int64_t weights =
      arch::count_parameters(config).total / (needs.tp * needs.pp) * static_cast<std::int64_t>(size_of(type));
  const std::string halved = type == DType::f32 ? "--dtype bf16 takes half as much; " : "";
  comm::demand_free_memory(session.world(), weights, fmt::format("{}: not enough memory for its weights", loaded.folder),
                           halved + "ranks on several hosts can have a part each (lockstep launch, --tp, --pp)");
  const layout::ParallelPlan plan{.dp = ranks / tp / pp, .tp = tp, .pp = pp, .ranks_per_host = ranks};
  loaded.groups = std::make_unique<parallel::Groups>(session.world(), layout::Mesh(plan));
  loaded.ops = session.make_ops(nullptr, stored_bf16_order(loaded.manifest));
  loaded.inference = std::make_unique<train::Inference>(config, type, session.runtime(), *loaded.ops, *loaded.groups);
}

LoadedModel load_published(const std::string& path, std::int64_t context, const ReadingNeeds& needs, Session& session, Log& log) {
  std::optional<checkpoint::huggingface::Weights> weights;
  LoadedModel loaded;
  loaded.folder = path;
  comm::together(session.world(), [&] {
    weights.emplace(path);
    loaded.manifest.run = Json::Object{{published_key, published_facts(weights->folder(), true)}};
  });
  for (const std::string& warning : weights->warnings()) log.warning(warning);
  data::PublishedTokenizer found = data::find_published_tokenizer(weights->folder().path());
  loaded.tokenizer = std::move(found.tokenizer);
  loaded.no_tokenizer = std::move(found.fault);
  arch::ModelConfig config = weights->config();
  config.block_size = std::min(config.block_size, context);
  make_room(loaded, config, needs.type.value_or(DType::f32), needs, session);
  loaded.inference->load(*weights, session.team());
  return loaded;
}

}  // namespace

std::vector<std::string> dtype_choices() {
  std::vector<std::string> all{std::string(stored_dtype)};
  all.insert(all.end(), dtype_spellings().begin(), dtype_spellings().end());
  return all;
}

std::optional<DType> chosen_dtype(const std::string& choice) {
  return choice == stored_dtype ? std::nullopt : std::optional(dtype_from_spelling(choice));
}

LoadedModel load_model(const std::string& path, const std::string& which, const ReadingNeeds& needs, Session& session, Log& log) {
  const std::int64_t longest =
      needs.context.value_or(0);  // below 1: the caller refuses it, when it knows what the model can read
  if (checkpoint::huggingface::is_published(path)) {
    return load_published(path, longest < 1 ? usual_context : longest, needs, session, log);
  }
  checkpoint::Choice choice = checkpoint::choose_checkpoint(session.world(), path, which);
  for (const std::string& reason : choice.passed_over) log.warning(reason);
  LoadedModel loaded;
  loaded.folder = choice.folder.string();
  loaded.manifest = std::move(choice.manifest);
  arch::ModelConfig config = arch::model_from_json(loaded.manifest.model, loaded.folder);
  if (longest >= 1 && config.position == arch::PositionKind::rope) config.block_size = std::min(config.block_size, longest);
  const Json* tokenizer = loaded.manifest.run.is_object() ? loaded.manifest.run.find("tokenizer") : nullptr;
  if (tokenizer != nullptr) loaded.tokenizer = data::make_tokenizer(*tokenizer);
  if (tokenizer == nullptr) loaded.no_tokenizer = loaded.folder + " was trained on token ids without a tokenizer";
  make_room(loaded, config, needs.type.value_or(loaded.manifest.dtype), needs, session);
  loaded.inference->load(*checkpoint::open_together(session.world(), choice.folder), session.team());
  return loaded;
}

}  // namespace lockstep::app
