#include "app/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/published/published_files.h"
#include "app/settings/run_config.h"
#include "app/start/same_run.h"
#include "arch/config_json.h"
#include "arch/parameters.h"
#include "arch/shard_rules.h"
#include "checkpoint/find.h"
#include "checkpoint/huggingface/adapter.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/reader.h"
#include "comm/agreement.h"
#include "comm/free_memory.h"
#include "data/tokenizer_choice.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

/// Published models are made for texts far longer than most: without a word about it, this much of one is read at a time.
constexpr std::int64_t usual_context = 1024;

/// The session's ranks have the model as the layout says, in memory taken for it. `stored`: its type where none is asked for.
/// Throws UserError for a layout that they cannot have.
void make_room(LoadedModel& loaded, const arch::ModelConfig& config, DType stored, const ModelOptions& options, Session& session,
               Log& log) {
  const int ranks = session.world().size();
  const DType type = options.dtype == "stored" ? stored : dtype_from_spelling(options.dtype);
  lab::Layout layout = options.layout.layout.value_or(lab::data_parallel(ranks));
  layout.plan.ranks_per_host = ranks;
  const auto problems_of = [&](const lab::Layout& asked) {
    return check(asked, arch::plan_limits(config, config.block_size), ranks, lab::bench_defaults);
  };
  if (std::vector<Problem> problems = problems_of(layout); !problems.empty()) throw UserError(std::move(problems));
  if (!layout.plan.canonical && stored_canonical(loaded.manifest)) {
    layout.plan.canonical = true;
    if (const std::vector<Problem> problems = problems_of(layout); !problems.empty()) {
      layout.plan.canonical = false;
      log.warning(fmt::format("not read by the canonical sums that it was trained by: {}", problems.front().message));
    }
  }
  const layout::ParallelPlan plan{.dp = layout.plan.dp,
                                  .tp = layout.plan.tp,
                                  .pp = layout.plan.pp,
                                  .ranks_per_host = layout.plan.ranks_per_host,
                                  .canonical = layout.plan.canonical};
  const std::int64_t weights =
      arch::count_parameters(config).total / (std::int64_t{plan.tp} * plan.pp) * static_cast<std::int64_t>(size_of(type));
  const std::string halved = type == DType::f32 ? "--dtype bf16 takes half as much; " : "";
  comm::demand_free_memory(session.world(), weights, fmt::format("{}: not enough memory for its weights", loaded.folder),
                           halved + "ranks on several hosts can have a part each (lockstep launch, --layout)");
  loaded.groups = std::make_unique<parallel::Groups>(session.world(), layout::Mesh(plan));
  loaded.ops = session.make_ops(nullptr, stored_bf16_order(loaded.manifest));
  loaded.inference = std::make_unique<train::Inference>(config, type, session.runtime(), *loaded.ops, *loaded.groups);
}

/// The adapter that is asked for, which becomes the model's; nothing where none is. Collective.
std::optional<checkpoint::huggingface::AdapterFolder> open_adapter(const ModelOptions& options, arch::ModelConfig& config,
                                                                   Session& session) {
  std::optional<checkpoint::huggingface::AdapterFolder> adapter;
  if (options.adapter.empty()) return adapter;
  comm::together(session.world(), [&] {
    if (config.adapter.used()) {
      throw UserError(fmt::format("--adapter {}: {} has adapters already", options.adapter, options.model),
                      "merge them first: lockstep convert --merge");
    }
    adapter.emplace(options.adapter, config);
  });
  config.adapter = adapter->adapter();
  return adapter;
}

void load(LoadedModel& loaded, const checkpoint::WeightSource& model,
          const std::optional<checkpoint::huggingface::AdapterFolder>& adapter, Session& session) {
  if (!adapter) return loaded.inference->load(model, session.team());
  loaded.inference->load(checkpoint::huggingface::AdaptedSource(model, &*adapter), session.team());
}

LoadedModel load_published(const ModelOptions& options, std::int64_t context, Session& session, Log& log) {
  std::optional<checkpoint::huggingface::Weights> weights;
  LoadedModel loaded;
  loaded.folder = options.model;
  comm::together(session.world(), [&] {
    weights.emplace(options.model);
    loaded.manifest.run = Json::Object{{published_key, published_facts(weights->folder())}};
  });
  for (const std::string& warning : weights->warnings()) log.warning(warning);
  data::PublishedTokenizer found = data::find_published_tokenizer(weights->folder().path());
  loaded.tokenizer = std::move(found.tokenizer);
  loaded.no_tokenizer = std::move(found.fault);
  arch::ModelConfig config = weights->config();
  config.block_size = std::min(config.block_size, context);
  const auto adapter = open_adapter(options, config, session);
  make_room(loaded, config, DType::f32, options, session, log);
  load(loaded, *weights, adapter, session);
  return loaded;
}

}  // namespace

void ModelOptions::declare(CommandLine& line, const std::string& shared) {
  line.positional("MODEL", model, "folder of a run, a checkpoint or a Hugging Face model, or a GGUF file", true, {"--model"});
  line.option("--checkpoint", checkpoint, "best|last|STEP", "of a run");
  line.option("--adapter", adapter, "FOLDER", "read the model with this adapter of PEFT's (LoRA)");
  layout.declare(line,
                 "ranks that have one copy of the model together: tp=N, each a part of every layer; pp=N, each a part of its "
                 "layers; dp=N copies. With canonical, or where a run was trained so, no tp changes a bit",
                 shared);
  line.option("--threads", threads, "N", "of each rank; 0: its share of the cores");
  std::vector<std::string> types = dtype_spellings();
  types.insert(types.begin(), "stored");
  line.choice("--dtype", dtype, types, "type of weights and activations; stored: as it was trained");
  line.option("--isa", isa, "auto|avx2|avx512|avx512_bf16|amx", "instruction set");
}

RankOptions ModelOptions::ranks() const {
  return {.ranks = layout.ranks_to_start(), .threads = threads, .isa = ops::isa_from_name(isa)};
}

LoadedModel load_model(const ModelOptions& options, std::optional<std::int64_t> context, Session& session, Log& log) {
  const std::int64_t longest = context.value_or(0);  // below 1: the caller refuses it, when it knows what the model can read
  if (checkpoint::huggingface::is_published(options.model))
    return load_published(options, longest < 1 ? usual_context : longest, session, log);
  checkpoint::Choice choice = checkpoint::choose_checkpoint(session.world(), options.model, options.checkpoint);
  for (const std::string& reason : choice.passed_over) log.warning(reason);
  LoadedModel loaded;
  loaded.folder = choice.folder.string();
  loaded.manifest = std::move(choice.manifest);
  arch::ModelConfig config = arch::model_from_json(loaded.manifest.model, loaded.folder);
  if (longest >= 1 && config.position == arch::PositionKind::rope) config.block_size = std::min(config.block_size, longest);
  const Json* tokenizer = loaded.manifest.run.is_object() ? loaded.manifest.run.find("tokenizer") : nullptr;
  if (tokenizer != nullptr) loaded.tokenizer = data::make_tokenizer(*tokenizer);
  if (tokenizer == nullptr) loaded.no_tokenizer = loaded.folder + " was trained on token ids without a tokenizer";
  const auto adapter = open_adapter(options, config, session);
  make_room(loaded, config, loaded.manifest.dtype, options, session, log);
  load(loaded, *checkpoint::open_together(session.world(), choice.folder), adapter, session);
  return loaded;
}

}  // namespace lockstep::app
