#include "app/plan/foreign/megatron_table.h"

#include <array>
#include <string>

#include "base/number_text.h"

namespace lockstep::app::megatron {
namespace {

using Use = Argument::Use;

Argument value(std::string_view name, std::string_view key, std::string_view off = {}) {
  return {.name = name, .key = key, .off = off};
}
Argument written(std::string_view name, std::string_view key, std::string_view off = {}) {
  return {.name = name, .key = key, .use = Use::written, .off = off};
}
Argument flag(std::string_view name, std::string_view key, std::string_view on, std::string_view off) {
  return {.name = name, .key = key, .on = on, .off = off};
}
Argument other_flag(std::string_view name, std::string_view key, std::string_view on) {
  return {.name = name, .key = key, .use = Use::read, .on = on};
}

/// Whether it begins with one of the words of `names`.
bool begins(std::string_view names, std::string_view name) {
  for (const std::string& one : parts_of_list(names)) {
    if (name.starts_with(one)) return true;
  }
  return false;
}

}  // namespace

std::span<const Argument> arguments() {
  static const std::vector<Argument> all{
      value(layers, "model.n_layer"),
      value("--hidden-size", "model.n_embd"),
      value("--ffn-hidden-size", "model.ffn_width"),
      value("--num-attention-heads", "model.n_head"),
      {.name = "--num-query-groups", .key = "model.n_kv_head", .beside = "--group-query-attention"},
      value("--kv-channels", "model.head_dim"),
      value("--seq-length", "model.block_size"),
      written("--max-position-embeddings", "model.block_size"),
      value("--vocab-size", "model.vocab_size"),
      flag("--swiglu", "model.activation", "swiglu", "gelu"),
      {.name = "--normalization",
       .key = "model.norm",
       .off = "layernorm",
       .words = {{"LayerNorm", "layernorm"}, {"RMSNorm", "rmsnorm"}}},
      value("--norm-epsilon", "model.norm_eps", "1e-05"),
      {.name = "--position-embedding-type",
       .key = "model.position",
       .off = "learned",
       .words = {{"learned_absolute", "learned"}, {"rope", "rope"}, {"yarn", "rope"}}},
      other_flag(rotary, "model.position", "rope"),
      value("--rotary-base", "model.rope_theta", "10000"),
      flag("--disable-bias-linear", "model.bias", "false", "true"),
      flag("--add-qkv-bias", "model.qkv_bias", "true", "null"),
      flag("--qk-layernorm", "model.qk_norm", "true", "false"),
      flag("--apply-layernorm-1p", "model.norm_unit_offset", "true", "false"),
      flag("--untie-embeddings-and-output-weights", "model.tied", "false", "true"),
      value("--hidden-dropout", "model.dropout", "0.1"),
      written("--attention-dropout", "model.dropout", "0.1"),
      flag("--bf16", "train.dtype", "bf16", "fp32"),
      other_flag("--fp16", "train.dtype", "bf16"),
      value("--micro-batch-size", "model.batch_size"),
      value("--tensor-model-parallel-size", "parallel.tp"),
      flag("--sequence-parallel", "parallel.sequence", "true", "false"),
      value("--pipeline-model-parallel-size", "parallel.pp"),
      value("--context-parallel-size", "parallel.cp"),
      {.name = "--cp-comm-type",
       .key = "parallel.context",
       .off = "ring",
       .words = {{"p2p", "ring"},
                 {"all_gather", "allgather"},
                 {"allgather", "allgather"},
                 {"a2a", "ulysses"},
                 {"a2a+p2p", "ulysses+ring"}},
       .only_with = "parallel.cp"}};
  return all;
}

std::string_view reason_against(std::string_view name) {
  if (begins("--num-experts,--expert-model-parallel-size", name)) return "the planner has no experts";
  constexpr std::string_view others =
      "--multi-latent-attention,--hybrid-,--experimental-attention-variant,--linear-attention-freq,"
      "--heterogeneous-layers-config,--encoder-num-layers,--mtp-num-layers,--enable-mhc-connections,"
      "--model-parallel-size,--yaml-cfg";
  return begins(others, name) ? "the planner has no such model or layout" : "";
}

bool is_uncounted(std::string_view name) {
  return begins(
      "--account-for-,--checkpoint-activations,--cpu-offloading,--cuda-graph,--ddp-,--decoder-first-pipeline,"
      "--decoder-last-pipeline,--defer-embedding-wgrad,--delay-wgrad-compute,--distribute-saved-activations,"
      "--enable-cuda-graph,--exp-avg,--external-cuda-graph,--fine-grained-,--fp4-,--fp8-,--hierarchical-context,"
      "--hybrid-context,--main-grads-dtype,--main-params-dtype,--megatron-fsdp-,--moe-,"
      "--num-distributed-optimizer-instances,--offload-modules,--optimizer-cpu-offload,--optimizer-offload-fraction,"
      "--outer-dp-sharding,--quick-geglu,--rampup-batch-size,--recompute-modules,--reset-,--spec,--squared-relu,"
      "--step-batch-size-schedule,--tensor-parallel-num-weight-shards,--use-precision-aware-optimizer,--window-",
      name);
}

bool is_harmless(std::string_view name) {
  return begins(
      "--accumulate-allreduce,--adam-,--apply-query-key,--apply-wd,--async-,--attention-dropout,"
      "--attention-softmax-in-fp32,--auto-detect,--calculate-per-token-loss,--check-for,--ckpt,--clip-grad,"
      "--cross-entropy,--data,--decoupled-,--deterministic-mode,--dist-ckpt,--distributed-,--embedding-init,"
      "--empty-unused,--enable-ft,--end-weight,--eod-,--error-injection,--eval,--exit,--finetune,--full-validation,"
      "--high-priority-stream,--hysteresis,--inference,--init-method,--initial-loss,--lazy-mpu,--legacy-tokenizer,"
      "--lion-,--load,--local-rank,--log,--loss-scale,--lr,--manual-gc,--master,--max-position,"
      "--max-restarts,--memory-snapshot,--merge-file,--min-loss,--min-lr,--mock-data,--monitor-interval,"
      "--multiple-validation,--muon-,--nccl-,--no-,--node-rank,--non-persistent,--null-tokenizer,--num-dataset,"
      "--num-workers,--one-logger,--optimizer,--overlap-param-gather,--override-opt,--pad-vocab,--per-split,"
      "--pretrained,--profile,--rdzv,--record-,--redirects,--rerun,--role,--rope-scaling,--rotary-percent,--rotary-seq,"
      "--save,--seed,--sgd-,--skip-train,--special-tokens,--split,--standalone,--start-weight,--tee,--tensorboard,"
      "--test-data,--test-mode,--tiktoken,--timing,--tokenizer,--train-data,--train-iters,--train-samples,--train-sync,"
      "--transformer-impl,--trust-remote,--use-checkpoint,--use-cpu-initialization,--use-dist-ckpt,--use-flash-attn,"
      "--use-mcore-models,--use-nsys,--use-pytorch-profiler,--use-rope-scaling,--use-sharp,--use-tp-pp-dp-mapping,"
      "--valid-data,--vocab-extra,--vocab-file,--wandb,--warmup,--wd-,--weight-decay,--workload-inspector,--wsd-",
      name);
}

std::span<const std::string_view> missing_settings() {
  static constexpr std::array<std::string_view, 13> all{
      "model.qk_norm_whole",    "model.pre_norm",        "model.residual_scale",    "model.logit_scale",   "model.post_norm",
      "model.embedding_scale",  "model.attention_scale", "model.attention_softcap", "model.logit_softcap", "model.window",
      "model.rope_local_theta", "model.rope_skip_every", "model.rope_scaling"};
  return all;
}

}  // namespace lockstep::app::megatron
