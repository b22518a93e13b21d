#include "app/start/startup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <random>

#include "app/cli/build_info.h"
#include "app/cli/process.h"
#include "app/settings/choices.h"
#include "app/settings/keys.h"
#include "app/settings/run_layout.h"
#include "app/start/dist_info.h"
#include "arch/adapter.h"
#include "arch/parameters.h"
#include "base/json.h"
#include "base/units.h"
#include "comm/text.h"
#include "device/choose_device.h"
#include "layout/canonical_grid.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

std::string_view yes_no(bool value) { return value ? "True" : "False"; }

const char* activation_text(arch::ActivationKind f) {
  switch (f) {
    case arch::ActivationKind::none:
      return "Identity()";
    case arch::ActivationKind::gelu:
      return "GELU(approximate='none')";
    case arch::ActivationKind::gelu_tanh:
      return "GELU(approximate='tanh')";
    case arch::ActivationKind::relu:
      return "ReLU()";
    case arch::ActivationKind::silu:
      return "SiLU()";
  }
  throw BrokenRule("every activation has a name");
}

// What a run keeps beside its weights, where that is not all float32.
std::string masters_text(const RunConfig& config) {
  const DType moments = moments_of(config);
  const std::string rounded = config.optimizer.rounding == train::Rounding::nearest ? "" : ", rounded stochastically";
  if (dtype_of(config) == DType::f32) return moments == DType::f32 ? "" : ", with moments in bfloat16" + rounded;
  if (!config.optimizer.master_weights)
    return fmt::format(", without master weights{}{}", moments == DType::f32 ? ", with moments in float32" : "", rounded);
  return moments == DType::f32 ? ", with master weights and moments in float32"
                               : ", with master weights in float32 and moments in bfloat16" + rounded;
}

// "AdamW(lr=0.0006, beta1=0.9, ...)": the method's own settings as it describes them.
std::string optimizer_text(const RunConfig::Optimizer& config, const train::OptimizerSettings& settings) {
  std::string text = fmt::format("{}(lr={}", config.name, config.learning_rate);
  const Json description = train::make_optimizer(settings)->describe();
  for (const auto& [name, value] : description.object()) {
    if (value.is_number()) text += fmt::format(", {}={:g}", name, value.number());
  }
  return text + fmt::format(", decay={})", word_of(config.decay));
}

// "kernels.products=plain kernels.norm=plain": those that differ from the defaults; empty: none does.
std::string unusual_kernels(const RunConfig& config) {
  std::string text;
  for (const settings::Key& key : settings::keys()) {
    if (key.group() != "kernels" || key.get(config).dump() == key.get(RunConfig{}).dump()) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.name, settings::shown(key.get(config)));
  }
  return text;
}

std::string rope_text(const arch::Rope& rope) {
  std::string text = fmt::format("theta={}", rope.theta);
  if (rope.local_theta > 0) text += fmt::format(", theta={:g} within the window", rope.local_theta);
  if (rope.skip_every > 0) text += fmt::format(", not in every {}. layer", rope.skip_every);
  if (rope.scaling == arch::RopeScaling::none) return text;
  text += fmt::format(", {} x{}", word_of(rope.scaling), rope.factor);
  const bool original = rope.scaling != arch::RopeScaling::linear && rope.scaling != arch::RopeScaling::dynamic;
  return text + (original ? fmt::format(", original={}", rope.original_block_size) : "");
}

std::string_view how_it_adds(ops::Bf16Order order) {
  if (order == ops::Bf16Order::amx) return "as AMX does";
  return order == ops::Bf16Order::pairs ? "in pairs" : "as in fp32";
}

// Which other layouts give a run's bits, where its sums are not canonical.
std::string bits_text(const RunConfig& config) {
  const bool servers = config.train.backend == BackendKind::ps;
  if (servers && server_mode(config) == train::ServerMode::async) {
    return "no two runs have the same: servers update as gradients arrive (parallel.ps=gradients: they do)";
  }
  return fmt::format(
      "the same by any threads, hosts, zero and pp; not by dp, gas, tp and cp ({}numerics.canonical=true: by these too)",
      servers ? "train.backend=DDP " : "");
}

// What is unusual of the arithmetic.
void log_kernels(Log& log, const RunConfig& config, const Session& session) {
  if (config.numerics.products == ops::Products::library) {
    log.warning(
        fmt::format("Products are those of {} (numerics.products=library): their bits may differ with shapes, threads, ranks and "
                    "processors",
                    ops::library_for(dtype_of(config))));
  }
  if (dtype_of(config) == DType::bf16 && config.numerics.products == ops::Products::ours) {
    log.info(fmt::format("Products of two bf16 matrices add {} (numerics.bf16={})", how_it_adds(config.numerics.bf16),
                         ops::name_of(config.numerics.bf16)));
  }
  if (const std::string kernels = unusual_kernels(config); !kernels.empty()) log.info("Kernels: " + kernels);
  if (config.numerics.canonical) {
    log.info(fmt::format("Sums that a layout may divide are made by {} fixed ranges (numerics.canonical=true)",
                         layout::canonical_ranges));
  } else if (config.numerics.products == ops::Products::ours && !config.train.eval_only) {
    log.info("Bits:     " + bits_text(config));
  }
  if (session.isa() == ops::Isa::baseline) {
    log.warning("This processor has no AVX2 and FMA, or they are switched off: the kernels run, slowly");
  }
}
/// How many parameters of a model with adapters are trained, in words.
std::string trained_text(const arch::ModelConfig& model, const arch::ParameterCounts& counts) {
  return fmt::format(
      "{:.2f} M parameters ({:.2f} %): adapters of rank {} beside {}, scale {:.4g}{}", static_cast<double>(counts.trained) / 1e6,
      100 * static_cast<double>(counts.trained) / static_cast<double>(counts.total), model.adapter.rank,
      arch::words_of(model.adapter.targets), model.adapter.scale(),
      model.adapter.whole == arch::WholeEnds::none ? "" : fmt::format("; whole: {}", word_of(model.adapter.whole)));
}

}  // namespace

LogForm log_form(const RunConfig& config) {
  return config.log.style == train::LogStyle::wordplay ? LogForm::stamped : LogForm::calm;
}

void log_plainly(Log& log, const StartupFacts& facts, const Session& session) {
  const RunConfig& config = facts.config;
  const arch::ModelConfig& model = facts.settings.model;
  const std::int64_t text = facts.corpus.train.tokens();
  const std::int64_t each = tokens_per_iteration(config, replicas_of(config, session.world().size()));
  log.info(fmt::format("Lockstep {} on {}", kVersion, session.description()));
  log.info(fmt::format("Text:     {}, {} tokens to train on and {} to validate with, vocabulary {}", data_folder(config),
                       format_count(text), format_count(facts.corpus.val.tokens()), format_count(facts.corpus.vocabulary())));
  const arch::ParameterCounts counts = arch::count_parameters(model, config.optimizer.decay);
  log.info(fmt::format("Model:    {:.2f} M parameters: {} layers of width {}, {} heads, context {}",
                       static_cast<double>(counts.without_positions) / 1e6, model.layers, model.width, model.heads,
                       model.block_size));
  if (model.adapter.used()) log.info("Trained:  " + trained_text(model, counts));
  if (facts.steps > 0 && !config.train.eval_only) {
    log.info(fmt::format("Training: {} steps of {} tokens ({:.3g} times the text), {}, seed {}{}", format_count(facts.steps),
                         format_count(each),
                         facts.samples_seen * static_cast<double>(config.model.block_size) / static_cast<double>(text),
                         spelt(dtype_of(config)), seed_of(config), masters_text(config)));
  }
  log_layout(log, facts.settings.plan);
  log_kernels(log, config, session);
  const std::string named = io::Path(facts.run_folder).filename() == facts.run_name ? "" : ", named " + facts.run_name;
  log.info(fmt::format("Run:      {}{}", facts.run_folder, named));
}

std::vector<std::string> quiet_hosts(const Session& session, comm::Communicator& ranks) {
  std::vector<std::string> hosts = comm::all_texts(ranks, session.crowded() ? "" : host_name());
  if (std::ranges::count(hosts, "") > 0) hosts.clear();
  return hosts;
}

std::string model_tree(const arch::ModelConfig& m) {
  const layout::ShardedDims dims = arch::whole_dims(m);
  const auto linear = [](std::string_view name, std::int64_t in, std::int64_t out, bool bias) {
    return fmt::format("({}): Linear(in_features={}, out_features={}, bias={})", name, in, out, yes_no(bias));
  };
  const char* norm = m.norm != arch::NormKind::rmsnorm ? "LayerNorm()" : m.unit_offset ? "RMSNorm(1 + gain)" : "RMSNorm()";
  std::string tree = "GPT(\n  (transformer): ModuleDict(\n";
  tree += fmt::format("    (wte): Embedding({}, {}){}\n", m.vocabulary, m.width,
                      m.embedding_scale == 1 ? "" : fmt::format(" * {:.6g}", m.embedding_scale));
  if (m.position == arch::PositionKind::learned) tree += fmt::format("    (wpe): Embedding({}, {})\n", m.block_size, m.width);
  tree += fmt::format("    (drop): Dropout(p={:.1f}, inplace=False)\n", m.dropout);
  tree += fmt::format("    (h): ModuleList(\n      (0-{}): {} x Block(\n", m.layers - 1, m.layers);
  if (m.pre_norm) tree += fmt::format("        (ln_1): {}\n", norm);
  tree += "        (attn): CausalSelfAttention(\n";
  tree += "          " + linear("c_attn", m.width, dims.qkv_width(), m.qkv_bias) + "\n";
  if (m.qk_norm)
    tree += fmt::format("          (q_norm), (k_norm): {} of {}\n", m.unit_offset ? "RMSNorm(1 + gain)" : "RMSNorm()",
                        m.qk_norm_whole ? "all heads" : fmt::format("heads of {}", m.head_size));
  if (m.attention_softcap > 0) tree += fmt::format("          (softcap): {:g}\n", m.attention_softcap);
  if (m.window > 0) {
    tree += fmt::format("          (window): {} keys{}\n", m.window,
                        m.global_every > 0 ? fmt::format(", all in every {}. layer", m.global_every) : "");
  }
  if (m.position == arch::PositionKind::rope) tree += fmt::format("          (rotary): RoPE({})\n", rope_text(m.rope));
  tree += "          " + linear("c_proj", dims.attention_width(), m.width, m.bias) + "\n        )\n";
  if (m.post_norm) tree += fmt::format("        (post_1): {}\n", norm);
  if (m.pre_norm) tree += fmt::format("        (ln_2): {}\n", norm);
  tree += "        (mlp): MLP(\n";
  tree += "          " + linear("c_fc", m.width, dims.up_width(), m.bias) + "\n";
  tree += fmt::format("          (act_fn): {}{}\n", activation_text(m.activation), m.gated ? " * gate" : "");
  tree += "          " + linear("c_proj", m.ffn_width, m.width, m.bias) + "\n        )\n";
  if (m.post_norm) tree += fmt::format("        (post_2): {}\n", norm);
  if (m.residual_scale != 1) tree += fmt::format("        (residual_scale): {:g}\n", m.residual_scale);
  tree += "      )\n    )\n";
  tree += fmt::format("    (ln_f): {}\n  )\n", norm);
  return tree + "  " + linear("lm_head", m.width, m.vocabulary, false) +
         (m.logit_scale != 1 ? fmt::format("\n  (logit_scale): {:g}", m.logit_scale) : "") +
         (m.logit_softcap > 0 ? fmt::format("\n  (softcap): {:g}", m.logit_softcap) : "") + "\n)";
}

void log_parameters(Log& log, const RunConfig& config, const arch::ModelConfig& model) {
  const arch::ParameterCounts counts = arch::count_parameters(model, config.optimizer.decay);
  log.info(fmt::format("number of parameters: {:.2f}M", static_cast<double>(counts.without_positions) / 1e6));
  log.info(fmt::format("Model size: num_params={}", counts.without_positions));
  if (model.adapter.used()) log.info("trained: " + trained_text(model, counts));
  log.info(
      fmt::format("num decayed parameter tensors: {}, with {} parameters", counts.decayed_tensors, format_count(counts.decayed)));
  log.info(
      fmt::format("num non-decayed parameter tensors: {}, with {} parameters", counts.other_tensors, format_count(counts.other)));
}

void log_layout(Log& log, const layout::ParallelPlan& plan) {
  if (plan.ranks() > 1) log.info(fmt::format("Layout of {} ranks: {}", plan.ranks(), layout::describe(plan)));
}

void log_startup(Log& log, const StartupFacts& facts, Session& session) {
  const RunConfig& config = facts.config;
  log.info("Setting logging level to 'INFO' on 'RANK == 0'");
  log.info("Setting logging level to 'CRITICAL' on all others 'RANK != 0'");
  log.info(
      "To disable this behavior, and log from ALL ranks (not recommended), set: 'export LOG_FROM_ALL_RANKS=1' in your "
      "environment, and re-run.");
  const std::string_view device = name_of(session.runtime().device().kind);
  const int rank = session.world().rank(), ranks = session.world().size();
  const Standing standing = log_ranks(session, log, static_cast<int>(servers_of(config)));
  log.info(fmt::format("[{}/{}] Using device='{}' with backend='{}' + '{}' for distributed training.", rank, ranks, device,
                       word_of(config.train.backend), name_of(session.transport())));
  log.warning(fmt::format("Using [{0} / {0}] available \"{1}\" devices !!", ranks, device));
  log.info(session.description());
  log_kernels(log, config, session);
  log.info(fmt::format("Loading val from {}/val.bin", data_folder(config)));
  log.info(fmt::format("Loading train from {}/train.bin", data_folder(config)));
  const std::int64_t groups = replicas_of(config, ranks);
  log.info(fmt::format("Tokens per iteration: {}", format_count(tokens_per_iteration(config, groups))));
  log_layout(log, facts.settings.plan);
  log.info(fmt::format("Using dtype={} on device='{}'{}", spelt(dtype_of(config)), device, masters_text(config)));
  const InitFrom& from = config.train.init_from;
  log.info(from.kind == InitFrom::Kind::scratch
               ? "Initializing a new model from scratch"
               : fmt::format("Taking the weights of {}", from.kind == InitFrom::Kind::resume ? facts.run_folder : from.text));
  log.info(fmt::format("Run: {} of project {}", facts.run_name, config.train.wandb_project));
  log.info(fmt::format("Running on machine='{}'", standing.machine));
  log.info(fmt::format("Using seed: {}", seed_of(config)));
  log.warning(to_json(config, facts.settings.model.vocabulary).dump(4));
  log.warning(fmt::format("Output dir: {}", facts.run_folder));
  log_parameters(log, config, facts.settings.model);
  for (int r = 0; r < ranks; ++r)
    log.line(Level::critical, fmt::format("\"devid='{}:{}'\"", device, standing.of(r).local_rank()));
  log.info(fmt::format("using fused {}: True", config.optimizer.name));
  log.info("• model=" + model_tree(facts.settings.model));
  log.info("• optimizer=" + optimizer_text(config.optimizer, facts.settings.optimizer));
}

}  // namespace lockstep::app
