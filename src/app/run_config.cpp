#include "app/run_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "app/parameter_server/roles.h"
#include "app/settings/backends.h"
#include "app/settings/keys.h"
#include "app/start/pipeline_settings.h"
#include "base/units.h"
#include "layout/parallel_plan.h"

namespace lockstep::app {
namespace {

arch::ActivationKind activation_of(const std::string& name) {
  if (name == "gelu_tanh") return arch::ActivationKind::gelu_tanh;
  if (name == "relu") return arch::ActivationKind::relu;
  if (name == "silu" || name == "swiglu") return arch::ActivationKind::silu;
  return arch::ActivationKind::gelu;
}

arch::InitKind init_of(const std::string& name) {
  if (name == "pytorch") return arch::InitKind::pytorch;
  if (name == "small") return arch::InitKind::small;
  if (name == "smaller") return arch::InitKind::smaller;
  return arch::InitKind::gpt2;
}

arch::Rope rope_of(const RunConfig::Model& model) {
  arch::Rope rope;
  rope.theta = model.rope_theta;
  rope.scaling = model.rope_scaling == "llama3" ? arch::RopeScaling::llama3 : arch::RopeScaling::none;
  rope.factor = model.rope_factor;
  rope.low_freq_factor = model.rope_low_freq_factor;
  rope.high_freq_factor = model.rope_high_freq_factor;
  rope.original_block_size = model.rope_original_block_size;
  return rope;
}

// Without a head size of its own, the heads share the width out.
void check_heads(const RunConfig::Model& model, std::vector<Problem>& problems) {
  if (model.head_dim || model.n_embd % model.n_head == 0) return;
  problems.push_back(
      {fmt::format("model.n_head = {} does not divide model.n_embd = {}", model.n_head, model.n_embd),
       fmt::format("choose a width that is a multiple of {}, another number of heads, or set model.head_dim", model.n_head)});
}

void check_rounding(const RunConfig& config, std::vector<Problem>& problems) {
  const bool narrow_weights = dtype_of(config) == DType::bf16 && !config.optimizer.master_weights;
  if (config.optimizer.rounding == "nearest" || narrow_weights || moments_of(config) == DType::bf16) return;
  problems.push_back({"optimizer.rounding = stochastic: the optimizer stores nothing in bf16 that could be rounded",
                      "set optimizer.moments=bf16, or optimizer.rounding=nearest"});
}

void check_memory(const RunConfig::Memory& memory, std::vector<Problem>& problems) {
  if (!layout::recompute_from(memory.recompute)) {
    problems.push_back(
        {fmt::format("memory.recompute = {}: must be none, selective, full or every:k, k blocks from 1 on", memory.recompute),
         "memory.recompute=full keeps least of the usual ones"});
  }
  if (!layout::tiles_from(memory.tiles)) {
    problems.push_back(
        {fmt::format("memory.tiles = {}: must be INxOUT, tiles of in-features and of out-features from 1 on", memory.tiles),
         "memory.tiles=1x4, or 1x1 for whole matrices"});
  }
  if (memory.limit && bytes_from(*memory.limit).value_or(0) == 0) {
    problems.push_back({fmt::format("memory.limit = {}: must be a number of bytes, such as 4GiB or 800MiB", *memory.limit),
                        "memory.limit=4GiB, or null for no limit"});
  }
}

void check_offload(const RunConfig& config, std::vector<Problem>& problems) {
  const RunConfig::Memory& memory = config.memory;
  const bool servers = config.train.backend == "ps";
  if (servers && memory.offload_optimizer != "none") {
    problems.push_back(
        {fmt::format("memory.offload_optimizer = {}: with train.backend = ps the servers have the optimizer's state",
                     memory.offload_optimizer),
         "train.backend=DDP, or memory.offload_optimizer=none"});
  }
  if (servers && memory.offload_params != "none") {
    problems.push_back(
        {fmt::format("memory.offload_params = {}: with train.backend = ps every worker keeps all weights in memory",
                     memory.offload_params),
         "train.backend=DDP, or memory.offload_params=none"});
  }
  for (const auto& [name, to] : {std::pair("optimizer", &memory.offload_optimizer), std::pair("params", &memory.offload_params),
                                 std::pair("activations", &memory.offload_activations)}) {
    if (*to != "nvme" || memory.nvme_path) continue;
    problems.push_back({fmt::format("memory.offload_{} = nvme: memory.nvme_path does not say where", name),
                        "name a folder on a fast disk: memory.nvme_path=/nvme"});
  }
}

void check_saves(const RunConfig& config, std::vector<Problem>& problems) {
  if (!config.checkpoint.async || config.train.backend != "ps") return;
  problems.push_back(
      {"checkpoint.async = true: with train.backend = ps workers take weights from servers while a save would read them",
       "checkpoint.async=false, or train.backend=DDP"});
}

void check_canonical(const RunConfig& config, std::vector<Problem>& problems) {
  if (!config.numerics.canonical) return;
  if (products_of(config) == ops::Products::library) {
    problems.push_back(
        {"numerics.products = library: the library adds in an order of its own, and numerics.canonical = true in that "
         "of fixed ranges",
         "numerics.products=ours, or numerics.canonical=false"});
  }
  if (config.train.backend == "ps") {
    problems.push_back(
        {"train.backend = ps: parameter servers add up gradients by workers, and numerics.canonical = true by fixed "
         "ranges",
         "train.backend=DDP, or numerics.canonical=false"});
  }
}

void check_plain_products(const RunConfig& config, std::vector<Problem>& problems) {
  if (config.kernels.products == "best") return;
  if (products_of(config) == ops::Products::library) {
    problems.push_back({"kernels.products = plain: numerics.products = library has a library multiply",
                        "kernels.products=best, or numerics.products=ours"});
  }
  if (config.numerics.bf16 == "pairs") {
    problems.push_back({"kernels.products = plain: plain products add as fp32 does, and numerics.bf16 = pairs in pairs",
                        "kernels.products=best, or numerics.bf16=widened"});
  }
  if (config.numerics.canonical) {
    problems.push_back({"kernels.products = plain: numerics.canonical = true sums by ranges with the best products alone",
                        "kernels.products=best, or numerics.canonical=false"});
  }
}

void check_attention(const RunConfig& config, std::vector<Problem>& problems) {
  const bool stored = config.kernels.mask == "stored";
  if (config.kernels.attention == "tiled") {
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
  if (config.kernels.adamw == "tensor" && (narrow || moments_of(config) == DType::bf16)) {
    problems.push_back({"kernels.adamw = tensor: what it leaves between its passes is fp32, and this run keeps bf16",
                        "kernels.adamw=fused, or optimizer.master_weights=true and optimizer.moments=fp32"});
  }
}

}  // namespace

std::vector<Problem> check(const RunConfig& config) {
  std::vector<Problem> problems;
  check_heads(config.model, problems);
  if (problems.empty()) problems = arch::check(model_config(config, 2));
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
  if (train.dump_step && *train.dump_step >= train.max_iters) {
    problems.push_back(
        {fmt::format("train.dump_step = {} is no iteration of this run: they go from 0 to train.max_iters - 1 = {}",
                     *train.dump_step, train.max_iters - 1),
         "choose a lower train.dump_step or a higher train.max_iters"});
  }
  if (may_resume(config) && !config.log.dir && !config.log.name) {
    problems.push_back(
        {fmt::format("train.init_from = {} does not say which run", train.init_from), "name its folder: log.dir=runs/NAME"});
  }
  if (config.data.shards == "precut" && config.data.io != "files") {
    problems.push_back(
        {fmt::format("data.shards = precut (each rank reads its own file) and data.io = {} exclude each other", config.data.io),
         "leave one of them out"});
  }
  if (config.data.shards == "precut" && config.train.global_batch == "new") {
    problems.push_back({"train.global_batch = new: precut shards count their samples by the global batch that the run began with",
                        "keep it, or set data.shards=global"});
  }
  if (config.data.dir && config.data.file) {
    problems.push_back({"data.dir (prepared tokens) and data.file (a text to prepare) exclude each other", "give one of them"});
  }
  check_rounding(config, problems);
  check_memory(config.memory, problems);
  if (config.parallel.split && !split_from(*config.parallel.split)) {
    problems.push_back({fmt::format("parallel.split = {}: must be the numbers of layers of the stages", *config.parallel.split),
                        "parallel.split=4,4,3,1, or null"});
  }
  check_offload(config, problems);
  check_saves(config, problems);
  check_canonical(config, problems);
  check_kernels(config, problems);
  for (Problem& problem : settings::check_backend(config)) problems.push_back(std::move(problem));
  for (Problem& problem : check_servers(config)) problems.push_back(std::move(problem));
  return problems;
}

std::vector<Problem> check_runnable(const RunConfig& config) {
  std::vector<Problem> problems;
  const std::vector<ops::Isa> isas = ops::available_isas();
  if (isa_of(config) != ops::Isa::automatic && std::find(isas.begin(), isas.end(), isa_of(config)) == isas.end()) {
    problems.push_back({fmt::format("numerics.isa = {}: this machine lacks it", config.numerics.isa),
                        fmt::format("numerics.isa=auto, or {}, the widest here", ops::name_of(isas.front()))});
  }
  if (products_of(config) == ops::Products::library) {
    if (ops::library_for(DType::f32).empty()) {
      problems.push_back({"numerics.products = library: this program was built without oneDNN",
                          "numerics.products=ours, or install oneDNN (Debian: libdnnl-dev) and build again"});
    } else if (ops::library_for(dtype_of(config)).empty()) {
      problems.push_back(
          {fmt::format("numerics.products = library: {} has no bf16 products on this processor", ops::library_for(DType::f32)),
           "numerics.products=ours, or train.dtype=fp32"});
    }
  }
  if (offloads_to_disk(config) && !std::filesystem::is_directory(*config.memory.nvme_path)) {
    problems.push_back({fmt::format("memory.nvme_path = {}: there is no such folder", *config.memory.nvme_path),
                        "make it on the disk that is offloaded to, or name another one"});
  }
  const std::string& from = config.train.init_from;
  if (starts_from_folder(config) && !std::filesystem::exists(from)) {
    problems.push_back({fmt::format("train.init_from = {}: there is no such folder", from),
                        "give the folder of a run, a checkpoint or a Hugging Face model, scratch, resume or auto"});
  }
  return problems;
}

DType dtype_of(const RunConfig& config) { return dtype_from_spelling(config.train.dtype); }

const std::vector<std::string>& dtype_spellings() {
  static const std::vector<std::string> all{"fp32", "float32", "bf16", "bfloat16"};
  return all;
}

DType dtype_from_spelling(std::string_view spelling) {
  return spelling == "bf16" || spelling == "bfloat16" ? DType::bf16 : DType::f32;
}

DType moments_of(const RunConfig& config) {
  if (config.optimizer.moments) return dtype_from_spelling(*config.optimizer.moments);
  return config.optimizer.master_weights ? DType::f32 : dtype_of(config);
}

std::string_view spelt(DType type) { return type == DType::bf16 ? "bfloat16" : "float32"; }

ops::Isa isa_of(const RunConfig& config) { return ops::isa_from_name(config.numerics.isa); }

ops::Bf16Order bf16_order_of(const RunConfig& config) { return ops::bf16_order_from_name(config.numerics.bf16); }

ops::Products products_of(const RunConfig& config) { return ops::products_from_name(config.numerics.products); }

ops::PlainKernels plain_kernels_of(const RunConfig& config) {
  const RunConfig::Kernels& kernels = config.kernels;
  return {.products = kernels.products == "plain",
          .epilogues = !kernels.epilogues,
          .norm = kernels.norm == "plain",
          .adamw = kernels.adamw == "tensor"};
}

layout::AttentionWeights attention_of(const RunConfig& config) {
  if (config.kernels.attention == "tiled") return layout::AttentionWeights::tiled;
  return config.kernels.mask == "stored" ? layout::AttentionWeights::masked : layout::AttentionWeights::whole;
}

data::Order order_of(const RunConfig& config) {
  const bool epochs = config.train.max_epochs.has_value() || config.data.order == "partition";
  return epochs ? data::Order::partition : data::Order::random;
}

std::uint64_t seed_of(const RunConfig& config) { return static_cast<std::uint64_t>(config.train.seed.value_or(1337)); }

std::int64_t checkpoint_interval(const RunConfig& config) {
  return config.checkpoint.interval.value_or(config.train.eval_interval);
}

bool offloads_to_disk(const RunConfig& config) {
  const RunConfig::Memory& memory = config.memory;
  return memory.offload_optimizer == "nvme" || memory.offload_params == "nvme" || memory.offload_activations == "nvme";
}

int zero_level(const RunConfig& config) {
  return static_cast<int>(config.memory.zero.value_or(settings::find_backend(config.train.backend).zero));
}

std::int64_t tokens_per_iteration(const RunConfig& config, std::int64_t ranks) {
  return config.optimizer.gas * ranks * config.model.batch_size * config.model.block_size;
}

std::string data_folder(const RunConfig& config) {
  return config.data.dir.value_or(config.data.root_path.value_or("data") + "/" + config.data.dataset);
}

bool may_resume(const RunConfig& config) { return config.train.init_from == "resume" || config.train.init_from == "auto"; }

bool starts_from_folder(const RunConfig& config) { return config.train.init_from != "scratch" && !may_resume(config); }

std::string run_folder(const RunConfig& config, std::string_view generated_name) {
  return config.log.dir.value_or("runs/" + config.log.name.value_or(std::string(generated_name)));
}

arch::ModelConfig model_config(const RunConfig& config, std::int64_t vocabulary) {
  const RunConfig::Model& model = config.model;
  arch::ModelConfig out;
  out.layers = model.n_layer;
  out.heads = model.n_head;
  out.kv_heads = model.n_kv_head.value_or(model.n_head);
  out.width = model.n_embd;
  out.head_size = model.head_dim.value_or(model.n_embd / model.n_head);
  out.gated = model.activation == "swiglu";
  out.ffn_width = model.ffn_width.value_or(arch::usual_ffn_width(model.n_embd, out.gated));
  out.block_size = model.block_size;
  out.vocabulary = model.vocab_size.value_or(vocabulary);
  out.norm = model.norm == "rmsnorm" ? arch::NormKind::rmsnorm : arch::NormKind::layernorm;
  out.norm_eps = static_cast<float>(model.norm_eps);
  out.position = model.position == "rope" ? arch::PositionKind::rope : arch::PositionKind::learned;
  if (out.position == arch::PositionKind::rope) out.rope = rope_of(model);
  out.activation = activation_of(model.activation);
  out.init = init_of(model.init);
  out.bias = model.bias;
  out.qkv_bias = model.qkv_bias.value_or(model.bias);
  out.tied = model.tied;
  out.dropout = static_cast<float>(model.dropout);
  return out;
}

arch::DecayRule decay_rule(const RunConfig& config) {
  return config.optimizer.decay == "all" ? arch::DecayRule::all : arch::DecayRule::matrices;
}

double lr_factor(const RunConfig& config, std::int64_t ranks) {
  if (config.optimizer.lr_scaling == "linear") return static_cast<double>(ranks);
  if (config.optimizer.lr_scaling == "sqrt") return std::sqrt(static_cast<double>(ranks));
  return 1;
}

bool logs_from_all_ranks(const RunConfig& config) {
  const char* wanted = std::getenv("LOG_FROM_ALL_RANKS");
  return config.log.all_ranks || (wanted != nullptr && std::string_view(wanted) == "1");
}

Json to_json(const RunConfig& config, std::int64_t vocabulary, bool wordplay_keys_only) {
  Json out;
  for (const settings::Group& group : settings::groups()) {
    Json members;
    for (const settings::Key& key : settings::keys()) {
      if (key.group() != group.name || (wordplay_keys_only && !key.in_wordplay)) continue;
      const bool replaced = key.name == "model.vocab_size" && vocabulary > 0;
      members.set(std::string(key.option()), replaced ? Json(vocabulary) : key.get(config));
    }
    if (!members.is_null()) out.set(std::string(group.name), std::move(members));
  }
  return out;
}

std::string to_toml(const RunConfig& config) {
  std::string out = "# The settings of a run. Read them again with: lockstep train --config FILE\n";
  for (const settings::Group& group : settings::groups()) {
    out += fmt::format("\n[{}]\n", group.name);
    for (const settings::Key& key : settings::keys()) {
      if (key.group() != group.name) continue;
      const Json value = key.get(config);
      out += fmt::format("{} = {}\n", key.option(), value.is_null() ? "\"null\"" : value.dump());
    }
  }
  return out;
}

}  // namespace lockstep::app
