#include "app/settings/foreign/other_words.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "app/settings/keys.h"

namespace lockstep::app {
namespace {

struct Word {
  std::string_view theirs;  // with hyphens; with its group where the name alone may mean something else
  std::string_view ours;    // {}: their value
};

constexpr std::array words_of_settings = std::to_array<Word>({
    {"lr", "optimizer.learning_rate={}"},
    {"wd", "optimizer.weight_decay={}"},
    {"epochs", "train.max_epochs={}"},
    {"num-epochs", "train.max_epochs={}"},
    {"num-train-epochs", "train.max_epochs={}"},
    {"steps", "train.max_iters={}"},
    {"max-steps", "train.max_iters={}"},
    {"num-steps", "train.max_iters={}"},
    {"iters", "train.max_iters={}"},
    {"iterations", "train.max_iters={}"},
    {"train-iters", "train.max_iters={}"},
    {"data-path", "data.dir={}"},
    {"data-dir", "data.dir={}"},
    {"train-data", "data.dir={}"},
    {"train-file", "data.file={}"},
    {"train-data-path", "data.file={}"},
    {"config-file", "--config {}"},
    {"dump-folder", "log.dir={}"},
    {"output", "log.dir={}"},
    {"out", "log.dir={}"},
    {"output-dir", "log.dir={}"},
    {"save", "log.dir={}"},
    {"save-dir", "log.dir={}"},
    {"logdir", "log.dir={}"},
    {"load", "log.dir={} train.init_from=resume, where that is a run's folder"},
    {"resume", "train.init_from=resume with log.dir=FOLDER, the run's"},
    {"resume-from-checkpoint", "train.init_from=resume with log.dir=FOLDER, the run's; its last checkpoint is taken"},
    {"model-name-or-path", "train.init_from={}"},
    {"checkpoint-dir", "train.init_from={}"},
    {"bs", "model.batch_size={}"},
    {"micro-batch-size", "model.batch_size={}"},
    {"local-batch-size", "model.batch_size={}"},
    {"per-device-train-batch-size", "model.batch_size={}"},
    {"global-batch-size", "model.batch_size x optimizer.gas x parallel.dp = {}, the sequences of a step"},
    {"grad-accum", "optimizer.gas={}"},
    {"gradient-accumulation-steps", "optimizer.gas={}"},
    {"accumulate-grad-batches", "optimizer.gas={}"},
    {"warmup", "train.warmup_iters={}"},
    {"warmup-steps", "train.warmup_iters={}"},
    {"lr-warmup-iters", "train.warmup_iters={}"},
    {"warmup-ratio", "train.warmup_iters=N, which is {} of train.max_iters"},
    {"scheduler", "optimizer.schedule={}"},
    {"lr-scheduler", "optimizer.schedule={}"},
    {"lr-scheduler-type", "optimizer.schedule={}"},
    {"lr-decay-style", "optimizer.schedule={}"},
    {"clip", "optimizer.grad_clip={}"},
    {"clip-grad", "optimizer.grad_clip={}"},
    {"max-grad-norm", "optimizer.grad_clip={}"},
    {"max-norm", "optimizer.grad_clip={}"},
    {"gradient-clip-val", "optimizer.grad_clip={}"},
    {"adam-beta1", "optimizer.beta1={}"},
    {"adam-beta2", "optimizer.beta2={}"},
    {"adam-epsilon", "optimizer.eps={}"},
    {"adam-eps", "optimizer.eps={}"},
    {"optim", "optimizer.name={}"},
    {"optimizer", "optimizer.name={}"},
    {"bf16", "train.dtype=bf16"},
    {"fp32", "train.dtype=fp32"},
    {"fp16", "train.dtype=bf16, which has fp32's range, so that it needs no loss scaler; there is no fp16"},
    {"mixed-precision", "train.dtype={}"},
    {"gradient-checkpointing", "memory.recompute=full"},
    {"activation-checkpointing", "memory.recompute=full"},
    {"recompute-activations", "memory.recompute=selective"},
    {"recompute-granularity", "memory.recompute={}"},
    {"hidden-size", "model.n_embd={}"},
    {"d-model", "model.n_embd={}"},
    {"dim", "model.n_embd={}"},
    {"layers", "model.n_layer={}"},
    {"n-layers", "model.n_layer={}"},
    {"num-layers", "model.n_layer={}"},
    {"num-hidden-layers", "model.n_layer={}"},
    {"heads", "model.n_head={}"},
    {"n-heads", "model.n_head={}"},
    {"num-heads", "model.n_head={}"},
    {"num-attention-heads", "model.n_head={}"},
    {"num-query-groups", "model.n_kv_head={}"},
    {"num-key-value-heads", "model.n_kv_head={}"},
    {"ffn-hidden-size", "model.ffn_width={}"},
    {"intermediate-size", "model.ffn_width={}"},
    {"seq-len", "model.block_size={}"},
    {"seq-length", "model.block_size={}"},
    {"max-seq-length", "model.block_size={}"},
    {"context-length", "model.block_size={}"},
    {"max-position-embeddings", "model.block_size={}"},
    {"rotary-base", "model.rope_theta={}"},
    {"tp-size", "parallel.tp={}"},
    {"tensor-parallel-size", "parallel.tp={}"},
    {"tensor-parallel-degree", "parallel.tp={}"},
    {"tensor-model-parallel-size", "parallel.tp={}"},
    {"pipeline-parallel-size", "parallel.pp={}"},
    {"pipeline-parallel-degree", "parallel.pp={}"},
    {"pipeline-model-parallel-size", "parallel.pp={}"},
    {"context-parallel-size", "parallel.cp={}"},
    {"context-parallel-degree", "parallel.cp={}"},
    {"sequence-parallel", "parallel.sequence=true"},
    {"zero-stage", "memory.zero={}"},
    {"use-distributed-optimizer", "memory.zero=1"},
    {"fsdp", "memory.zero=3"},
    {"deepspeed", "train.ds_config_path={}"},
    {"gpus", "--ranks {}"},
    {"num-gpus", "--ranks {}"},
    {"devices", "--ranks {}"},
    {"nproc-per-node", "--ranks {}"},
    {"logging-steps", "train.log_interval={}"},
    {"eval-steps", "train.eval_interval={}"},
    {"eval-every", "train.eval_interval={}"},
    {"save-steps", "checkpoint.interval={}"},
    {"save-every", "checkpoint.interval={}"},
    {"save-interval", "checkpoint.interval={}"},
    {"num-workers", "data.workers={}"},
    {"dataloader-num-workers", "data.workers={}"},
    {"name", "log.name={}"},
    {"run-name", "log.name={}"},
    {"report-to", "log.wandb=offline or log.tensorboard=true"},
    {"lora-r", "adapter.rank={}"},
    {"lora-rank", "adapter.rank={}"},
    {"lora-alpha", "adapter.alpha={}"},
    {"lora-target", "adapter.targets=all, attention or mlp, or some of q,k,v,o,gate,up,down"},
    {"lora-target-modules", "adapter.targets=all, attention or mlp, or some of q,k,v,o,gate,up,down"},
    {"target-modules", "adapter.targets=all, attention or mlp, or some of q,k,v,o,gate,up,down"},
    {"lora-target-linear", "adapter.targets=all"},
    {"lora-dropout", "adapter.rank=N without dropout, which adapters do not have"},
    {"lora-modules-to-save", "adapter.whole=embeddings, head or both"},
    {"modules-to-save", "adapter.whole=embeddings, head or both"},
    {"use-rslora", "adapter.rank_stabilised={}"},
    {"peft-use-rslora", "adapter.rank_stabilised={}"},
    {"pref-beta", "dpo.beta={}"},
    {"rl-beta", "dpo.beta={}"},
    {"assistant-only-loss", "lockstep prepare TEXT --train-on assistant, as what is taught belongs to the text"},
    {"completion-only-loss", "lockstep prepare TEXT --train-on completion, as what is taught belongs to the text"},
    {"train-on-inputs", "lockstep prepare TEXT --train-on all, as what is taught belongs to the text"},
    {"packing", "lockstep prepare TEXT --length N --pack"},
    {"sample-packing", "lockstep prepare TEXT --length N --pack"},
    {"sequence-len", "model.block_size={}"},
    {"cutoff-len", "model.block_size={}"},
    {"tokenizer", "lockstep prepare TEXT --tokenizer {}, as a tokenizer belongs to the text"},
    // torchtitan's (torchtitan/config/job_config.py)
    {"activation-checkpoint.mode", "memory.recompute={}"},
    {"async-mode", "checkpoint.async=true"},
    {"checkpoint.folder", "log.dir={}, the run's folder, which has its checkpoints"},
    {"compile.enable", "train.compile={}"},
    {"data-parallel-replicate-degree", "parallel.dp={}"},
    {"data-parallel-shard-degree", "parallel.dp={} with memory.zero=3"},
    {"decay-ratio", "optimizer.wsd_decay={} with optimizer.schedule=wsd"},
    {"decay-type", "optimizer.schedule={}"},
    {"enable-profiling", "log.trace={}"},
    {"enable-tensorboard", "log.tensorboard={}"},
    {"enable-wandb", "log.wandb=offline"},
    {"hf-assets-path", "lockstep prepare TEXT --tokenizer hf:{}, as a tokenizer belongs to the text"},
    {"initial-load-path", "train.init_from={}"},
    {"log-freq", "train.log_interval={}"},
    {"min-lr-factor", "optimizer.min_lr=N, which is {} of optimizer.learning_rate"},
    {"mixed-precision-param", "train.dtype={}"},
    {"model.flavor", "model=NAME, a bundle (lockstep help config model)"},
    {"model.name", "model=NAME, a bundle (lockstep help config model)"},
    {"pipeline-parallel-schedule", "parallel.schedule={}"},
    {"save-tb-folder", "log.dir={}, the run's folder, which has its curves"},
    {"validation.freq", "train.eval_interval={}"},
    {"validation.steps", "train.eval_iters={}"},
});

constexpr std::array words_of_generate = std::to_array<Word>({
    {"n-predict", "--tokens {}"},
    {"max-tokens", "--tokens {}"},
    {"max-new-tokens", "--tokens {}"},
    {"num-tokens", "--tokens {}"},
    {"n", "--tokens {}"},
    {"temp", "--temperature {}"},
    {"start", "--prompt {}"},
    {"p", "--prompt {}"},
    {"num-samples", "--samples {}"},
    {"m", "--model {}"},
    {"model-path", "--model {}"},
    {"ckpt", "--model {}"},
    {"out-dir", "--model {}"},
    {"model-name-or-path", "--model {}"},
    {"t", "--threads {}"},
    {"s", "--seed {}"},
    {"reverse-prompt", "--stop {}"},
});

constexpr std::array words_of_prepare = std::to_array<Word>({
    {"o", "--out {}"},
    {"output", "--out {}"},
    {"output-dir", "--out {}"},
    {"output-prefix", "--out {}"},
    {"input", "lockstep prepare {}"},
    {"text", "lockstep prepare {}"},
    {"vocab-size", "--tokenizer bpe:{}"},
    {"tokenizer-model", "--tokenizer hf:{}"},
    {"tokenizer-type", "--tokenizer NAME"},
    {"workers", "--threads {}"},
    {"num-proc", "--threads {}"},
    {"template", "--chat-template {}"},
    {"chat-template-path", "--chat-template {}"},
    {"max-length", "--length {}"},
    {"max-seq-length", "--length {}"},
    {"sequence-len", "--length {}"},
    {"cutoff-len", "--length {}"},
    {"assistant-only-loss", "--train-on assistant"},
    {"completion-only-loss", "--train-on completion"},
    {"train-on-inputs", "--train-on all"},
    {"train-on-prompt", "--train-on all"},
    {"mask-history", "--train-on last"},
    {"packing", "--pack"},
    {"sample-packing", "--pack"},
});

std::span<const Word> table_of(WordsOf of) {
  switch (of) {
    case WordsOf::settings:
      return words_of_settings;
    case WordsOf::generate:
      return words_of_generate;
    case WordsOf::prepare:
      return words_of_prepare;
  }
  return {};
}

/// The option's name without dashes in front, its words with `between` between them.
std::string plain_name(std::string_view option, char between) {
  std::string name(option.substr(std::min(option.find_first_not_of('-'), option.size())));
  std::ranges::replace(name, between == '-' ? '_' : '-', between);
  return name;
}

/// What to write instead; nothing for a word of which nothing is known.
std::optional<std::string> right_word(WordsOf of, const std::string& option, const std::optional<std::string>& value) {
  const std::string name = plain_name(option, '-');
  const std::span<const Word> words = table_of(of);
  auto found = std::ranges::find(words, name, &Word::theirs);
  if (found == words.end()) found = std::ranges::find(words, name.substr(name.rfind('.') + 1), &Word::theirs);
  if (found == words.end()) return std::nullopt;
  std::string right(found->ours);
  if (const std::size_t place = right.find("{}"); place != right.npos) right.replace(place, 2, value.value_or("VALUE"));
  return right;
}

}  // namespace

CommandLine::Meaning other_words(WordsOf of) {
  return [of](const std::string& option, const std::optional<std::string>& value) -> std::optional<CommandLine::Undeclared> {
    if (std::optional<std::string> right = right_word(of, option, value)) return {{.right = std::move(*right)}};
    if (of != WordsOf::settings || !option.starts_with("--")) return std::nullopt;
    const settings::Key* key = settings::find_key(plain_name(option, '_'));
    if (key == nullptr) return std::nullopt;
    return {{.setting = std::string(key->name), .flag = key->type == settings::Type::boolean}};
  };
}

std::optional<std::string> right_setting(std::string_view name, const std::optional<std::string>& value) {
  constexpr std::string_view unsaid = "=VALUE";
  std::optional<std::string> right = right_word(WordsOf::settings, std::string(name), value);
  if (right && !value && right->ends_with(unsaid)) right->resize(right->size() - unsaid.size());
  return right;
}

std::vector<std::string> known_words(WordsOf of) {
  std::vector<std::string> all;
  for (const Word& word : table_of(of)) all.push_back((word.theirs.size() == 1 ? "-" : "--") + std::string(word.theirs));
  return all;
}

}  // namespace lockstep::app
