#include "app/settings/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "app/settings/backends.h"
#include "app/settings/choices.h"
#include "app/settings/run_layout.h"
#include "app/settings/source_shape.h"
#include "arch/step_sizes.h"
#include "base/shell.h"
#include "io/file.h"
#include "layout/parallel_plan.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

// Without a head size of its own, the heads share the width out.
void check_heads(const RunConfig::Model& model, std::vector<Problem>& problems) {
  if (model.head_dim || model.n_embd % model.n_head == 0) return;
  problems.push_back(
      {fmt::format("model.n_head = {} does not divide model.n_embd = {}", model.n_head, model.n_embd),
       fmt::format("choose a width that is a multiple of {}, another number of heads, or set model.head_dim", model.n_head)});
}

// Some schedules of a pipeline keep every micro-batch.
std::vector<Problem> check_step(const RunConfig& config) {
  return arch::check(model_config(config, 2), {.samples = config.model.batch_size,
                                               .positions = config.model.block_size,
                                               .microbatches = config.optimizer.gas,
                                               .kept = config.parallel.pp > 1 ? config.optimizer.gas : 1});
}

void check_rounding(const RunConfig& config, std::vector<Problem>& problems) {
  const bool narrow_weights = dtype_of(config) == DType::bf16 && !config.optimizer.master_weights;
  if (config.optimizer.rounding == train::Rounding::nearest || narrow_weights || moments_of(config) == DType::bf16) return;
  problems.push_back({"optimizer.rounding = stochastic: the optimizer stores nothing in bf16 that could be rounded",
                      "set optimizer.moments=bf16, or optimizer.rounding=nearest"});
}

// Before a run: what no rank has whole, and what stays as it is.
void check_whole_tensors(const RunConfig& config, std::vector<Problem>& problems) {
  const train::WholeTensorNeed needed = train::make_optimizer({.name = config.optimizer.name})->whole_tensors();
  if (needed == train::WholeTensorNeed::none) return;
  if (config.train.backend == BackendKind::ps) {
    problems.push_back({fmt::format("optimizer.name = {}: it needs {} of whole tensors, and parameter servers hold parts of them",
                                    config.optimizer.name, needed == train::WholeTensorNeed::norms ? "norms" : "products"),
                        "optimizer.name=AdamW or sgd, or train.backend=DDP"});
  }
  if (needed == train::WholeTensorNeed::matrices && config.adapter.rank > 0) {
    problems.push_back(
        {fmt::format(
             "optimizer.name = {}: it changes hidden matrices, which stay as they are beside adapters (adapter.rank = {})",
             config.optimizer.name, config.adapter.rank),
         "optimizer.name=AdamW, or adapter.rank=0"});
  }
}

void check_offload(const RunConfig& config, std::vector<Problem>& problems) {
  const RunConfig::Memory& memory = config.memory;
  for (const auto& [name, to] : {std::pair("optimizer", &memory.offload_optimizer), std::pair("params", &memory.offload_params),
                                 std::pair("activations", &memory.offload_activations)}) {
    if (*to != OffloadTo::nvme || memory.nvme_path) continue;
    problems.push_back({fmt::format("memory.offload_{} = nvme: memory.nvme_path does not say where", name),
                        "name a folder on a fast disk: memory.nvme_path=/nvme"});
  }
}

void check_saves(const RunConfig& config, std::vector<Problem>& problems) {
  if (config.train.backend != BackendKind::ps) return;
  const auto refuse = [&](bool asked, std::string_view setting, std::string_view instead) {
    if (!asked) return;
    problems.push_back(
        {fmt::format("{}: with train.backend = ps workers take weights from servers while a save would read them", setting),
         fmt::format("{}, or train.backend=DDP", instead)});
  };
  refuse(config.checkpoint.async.value_or(false), "checkpoint.async = true", "checkpoint.async=false");
  refuse(config.checkpoint.copies != CopiesTo::none, "checkpoint.copies = neighbour", "checkpoint.copies=none");
}

void check_servers_device(const RunConfig& config, std::vector<Problem>& problems) {
  if (config.train.backend != BackendKind::ps || config.train.device != DeviceKind::cuda) return;
  problems.push_back({"train.device = cuda: with train.backend = ps servers add in the host's memory, and have none there",
                      "train.device=cpu, or train.backend=DDP"});
}

void check_audit(const RunConfig& config, std::vector<Problem>& problems) {
  if (config.train.audit == 0 || config.train.device != DeviceKind::cuda) return;
  problems.push_back({fmt::format("train.audit = {}: checksums of gradients are made of what lies in the host's memory, and "
                                  "train.device = cuda has them on the GPU",
                                  config.train.audit),
                      "train.audit=0, or train.device=cpu"});
}

void check_canonical(const RunConfig& config, std::vector<Problem>& problems) {
  if (!config.numerics.canonical) return;
  if (config.numerics.products == ops::Products::library) {
    problems.push_back(
        {"numerics.products = library: the library adds in an order of its own, and numerics.canonical = true in that "
         "of fixed ranges",
         "numerics.products=ours, or numerics.canonical=false"});
  }
}

void check_plain_products(const RunConfig& config, std::vector<Problem>& problems) {
  if (config.kernels.products == ProductKernel::best) return;
  if (config.numerics.products == ops::Products::library) {
    problems.push_back({"kernels.products = plain: numerics.products = library has a library multiply",
                        "kernels.products=best, or numerics.products=ours"});
  }
  const ops::Bf16Order order = config.numerics.bf16;
  if (order != ops::Bf16Order::automatic && order != ops::Bf16Order::widened && dtype_of(config) == DType::bf16) {
    problems.push_back({fmt::format("kernels.products = plain: plain products add as fp32 does, and numerics.bf16 = {} does not",
                                    ops::name_of(order)),
                        "kernels.products=best, or numerics.bf16=widened"});
  }
  if (config.numerics.canonical) {
    problems.push_back({"kernels.products = plain: numerics.canonical = true sums by ranges with the best products alone",
                        "kernels.products=best, or numerics.canonical=false"});
  }
}

void check_attention(const RunConfig& config, std::vector<Problem>& problems) {
  const bool stored = config.kernels.mask == MaskKernel::stored;
  if (config.kernels.attention == AttentionKernel::tiled) {
    if (stored) {
      problems.push_back({"kernels.mask = stored: tiled attention computes which keys a query sees",
                          "kernels.mask=computed, or kernels.attention=materialised"});
    }
    return;
  }
  if (stored && config.data.documents) {
    problems.push_back({"kernels.mask = stored: with data.documents = true every sample hides other keys",
                        "kernels.mask=computed, or data.documents=false"});
  }
  if (stored && config.model.window > 0) {
    problems.push_back(
        {fmt::format("kernels.mask = stored: with model.window = {} some layers hide other keys", config.model.window),
         "kernels.mask=computed, or model.window=0"});
  }
  if (config.model.attention_softcap > 0) {
    problems.push_back(
        {fmt::format("kernels.attention = materialised: scores with model.attention_softcap = {} are not made whole",
                     config.model.attention_softcap),
         "kernels.attention=tiled"});
  }
  if (config.parallel.cp > 1) {
    problems.push_back({fmt::format("kernels.attention = materialised: with parallel.cp = {} no rank has all keys of a query",
                                    config.parallel.cp),
                        "kernels.attention=tiled, or parallel.cp=1"});
  }
  if (config.numerics.canonical) {
    problems.push_back({"kernels.attention = materialised: numerics.canonical = true sums gradients of keys in tiles alone",
                        "kernels.attention=tiled, or numerics.canonical=false"});
  }
}

void check_kernels(const RunConfig& config, std::vector<Problem>& problems) {
  check_plain_products(config, problems);
  check_attention(config, problems);
  const bool narrow = dtype_of(config) == DType::bf16 && !config.optimizer.master_weights;
  if (config.kernels.adamw == AdamWKernel::tensor && (narrow || moments_of(config) == DType::bf16)) {
    problems.push_back({"kernels.adamw = tensor: what it leaves between its passes is fp32, and this run keeps bf16",
                        "kernels.adamw=fused, or optimizer.master_weights=true and optimizer.moments=fp32"});
  }
}

// Where the model that nanoGPT calls so is published; empty: it is another name.
std::string published_gpt2(std::string_view name) {
  constexpr std::array<std::string_view, 4> names{"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"};
  return std::find(names.begin(), names.end(), name) == names.end() ? "" : fmt::format("openai-community/{}", name);
}

// What is counted in epochs needs them.
void check_epochs(const RunConfig& config, std::vector<Problem>& problems) {
  if (order_of(config) == data::Order::partition) return;
  const std::string remedy = "set train.max_epochs or data.order=partition, or ";
  if (config.sample.every.epochs > 0) {
    problems.push_back(
        {fmt::format("sample.every = {}: windows in random order make no epochs", Form<SampleEvery>::print(config.sample.every)),
         remedy + "sample.every=evaluations"});
  }
  if (config.log.style == train::LogStyle::rasbt) {
    problems.push_back(
        {"log.style = rasbt: its lines count epochs, and windows in random order make none", remedy + "log.style=plain"});
  }
}

void check_data(const RunConfig& config, std::vector<Problem>& problems) {
  if (config.data.workers > 1 && config.data.io == DataIo::mpi) {
    problems.push_back({fmt::format("data.workers = {}: with data.io = mpi a rank's own thread reads", config.data.workers),
                        "data.workers=1, or data.io=files"});
  }
  if (config.data.shards == DataShards::precut && config.data.io != DataIo::files) {
    problems.push_back({fmt::format("data.shards = precut (each rank reads its own file) and data.io = {} exclude each other",
                                    word_of(config.data.io)),
                        "leave one of them out"});
  }
  if (config.data.shards == DataShards::precut && config.train.global_batch == GlobalBatch::renew) {
    problems.push_back({"train.global_batch = new: precut shards count their samples by the global batch that the run began with",
                        "keep it, or set data.shards=global"});
  }
  if (config.data.dir && config.data.file) {
    problems.push_back({"data.dir (prepared tokens) and data.file (a text to prepare) exclude each other", "give one of them"});
  }
}

void check_pairs(const RunConfig& config, std::vector<Problem>& problems) {
  if (config.train.objective != train::Objective::dpo) return;
  if (config.model.batch_size % 2 != 0) {
    problems.push_back(
        {fmt::format("model.batch_size = {}: with train.objective = dpo both samples of a pair are in a micro-batch",
                     config.model.batch_size),
         fmt::format("model.batch_size={}", config.model.batch_size + 1)});
  }
  if (config.data.io == DataIo::readers) {
    problems.push_back({"data.io = readers: with train.objective = dpo each rank reads its pairs for itself", "data.io=files"});
  }
}

}  // namespace

std::vector<Problem> check(const RunConfig& config) {
  std::vector<Problem> problems;
  check_heads(config.model, problems);
  if (problems.empty()) problems = arch::check(model_config(config, 2));
  if (problems.empty()) problems = check_step(config);
  const RunConfig::Train& train = config.train;
  const RunConfig::Optimizer& optimizer = config.optimizer;
  if (optimizer.decay_lr && optimizer.min_lr > optimizer.learning_rate) {
    problems.push_back(
        {fmt::format("optimizer.min_lr = {} is above optimizer.learning_rate = {}", optimizer.min_lr, optimizer.learning_rate),
         fmt::format("set optimizer.min_lr={} or less", optimizer.learning_rate)});
  }
  if (!optimizer.master_weights && dtype_of(config) == DType::f32) {
    problems.push_back({"optimizer.master_weights = false: weights in fp32 are their own master copy",
                        "set train.dtype=bf16, or optimizer.master_weights=true"});
  }
  if (train.dump_step && !train.max_epochs && *train.dump_step >= train.max_iters) {
    problems.push_back(
        {fmt::format("train.dump_step = {} is no iteration of this run: they go from 0 to train.max_iters - 1 = {}",
                     *train.dump_step, train.max_iters - 1),
         "choose a lower train.dump_step or a higher train.max_iters"});
  }
  if (may_resume(config) && !config.log.dir && !config.log.name) {
    problems.push_back(
        {fmt::format("train.init_from = {} does not say which run", train.init_from.text), "name its folder: log.dir=runs/NAME"});
  }
  const std::filesystem::path name = config.log.dir ? "" : config.log.name.value_or("");
  if (std::ranges::any_of(name, [](const auto& part) { return part == ".." || part == "."; })) {
    problems.push_back({fmt::format("log.name = {}: the run's folder would not be one of its own below runs/", name.string()),
                        "choose another name, or say where the run goes: log.dir=FOLDER"});
  }
  check_data(config, problems);
  check_pairs(config, problems);
  check_rounding(config, problems);
  check_whole_tensors(config, problems);
  check_epochs(config, problems);
  check_offload(config, problems);
  check_saves(config, problems);
  check_servers_device(config, problems);
  check_audit(config, problems);
  check_canonical(config, problems);
  check_kernels(config, problems);
  for (Problem& problem : settings::check_backend(config)) problems.push_back(std::move(problem));
  for (Problem& problem : check_servers(config)) problems.push_back(std::move(problem));
  return problems;
}

std::string odd_rates(const RunConfig& config) {
  const RunConfig::Train& train = config.train;
  const RunConfig::Optimizer& optimizer = config.optimizer;
  const std::int64_t warmup = train.warmup_iters, all = train.max_iters;
  if (!optimizer.decay_lr) return "";
  if (warmup > all)
    return fmt::format("train.warmup_iters = {} is above train.max_iters = {}: the learning rate stays below its highest", warmup,
                       all);
  using Kind = train::LrSchedule::Kind;
  const bool to_decay_iters = optimizer.schedule == Kind::wordplay || optimizer.schedule == Kind::nanogpt;
  if (to_decay_iters && warmup < all && optimizer.lr_decay_iters <= warmup)
    return fmt::format(
        "train.warmup_iters = {} is not below optimizer.lr_decay_iters = {}: behind the warm-up the learning rate is "
        "optimizer.min_lr = {}",
        warmup, optimizer.lr_decay_iters, optimizer.min_lr);
  if (optimizer.schedule != Kind::wsd || optimizer.wsd_decay == 0) return "";
  const std::int64_t decaying = train::decaying_iterations(optimizer.wsd_decay, all);
  const std::string of_run = fmt::format("optimizer.wsd_decay = {} of train.max_iters = {}", optimizer.wsd_decay, all);
  if (decaying == 0) return of_run + " is no whole iteration: the learning rate never falls";
  if (all - warmup >= decaying) return "";
  return fmt::format("train.warmup_iters = {} reaches into {}: the learning rate falls in {} iterations, not in {}", warmup,
                     of_run, all - warmup, decaying);
}

std::vector<Problem> check_runnable(const RunConfig& config) {
  std::vector<Problem> problems;
  const std::vector<ops::Isa> isas = ops::available_isas();
  if (config.numerics.isa != ops::Isa::automatic && std::find(isas.begin(), isas.end(), config.numerics.isa) == isas.end()) {
    problems.push_back({fmt::format("numerics.isa = {}: this machine lacks it", ops::name_of(config.numerics.isa)),
                        fmt::format("numerics.isa=auto, or {}, the widest here", ops::name_of(isas.front()))});
  }
  if (config.numerics.products == ops::Products::library) {
    try {
      if (ops::library_for(dtype_of(config)).empty()) {
        problems.push_back(
            {fmt::format("numerics.products = library: {} has no bf16 products on this processor", ops::library_for(DType::f32)),
             "numerics.products=ours, or train.dtype=fp32"});
      }
    } catch (const UserError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  }
  const std::string no_disk = offloads_to_disk(config) ? io::why_no_folder(*config.memory.nvme_path) : "";
  if (!no_disk.empty()) {
    problems.push_back({fmt::format("memory.nvme_path = {}: {}", *config.memory.nvme_path, no_disk),
                        "make it on the disk that is offloaded to, or name another one"});
  }
  const std::string& from = config.train.init_from.text;
  const bool from_folder = starts_from_folder(config) && !settings::starts_from_published(config);
  const std::string no_source = from_folder ? io::why_no_folder(from) : "";
  if (const std::string gpt2 = published_gpt2(from); !gpt2.empty() && !no_source.empty()) {
    problems.push_back({fmt::format("train.init_from = {}: OpenAI's weights are not here: there is no folder of that name", from),
                        fmt::format("bring them: {}; or give the folder that has them: train.init_from=FOLDER",
                                    own_command({"pull", gpt2, "--out", from}))});
  } else if (!no_source.empty()) {
    problems.push_back(
        {fmt::format("train.init_from = {}: {}", from, no_source),
         "give the folder of a run, a checkpoint or a Hugging Face model (lockstep pull ORG/NAME brings one), scratch, "
         "resume or auto"});
  }
  if (config.adapter.init_from && config.train.init_from.kind == InitFrom::Kind::scratch) {
    problems.push_back(
        {fmt::format("adapter.init_from = {}: the model beside it would start with drawn weights", *config.adapter.init_from),
         "name the model's folder: train.init_from=FOLDER"});
  }
  return problems;
}

}  // namespace lockstep::app
