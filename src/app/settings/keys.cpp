#include "app/settings/keys.h"

#include <fmt/format.h>

#include <random>
#include <string>

#include "app/settings/entry.h"
#include "data/formats/token_layout.h"
#include "device/team.h"
#include "planner/peaks.h"
#include "train/optimizer/optimizer.h"

namespace lockstep::settings {
namespace {

using app::RunConfig;
using Train = RunConfig::Train;
using Data = RunConfig::Data;
using Optimizer = RunConfig::Optimizer;
using Sample = RunConfig::Sample;

template <auto kMember>
Key train(std::string_view name, Rule rule, OnResume mark, std::string_view unit, std::string_view meaning,
          bool in_wordplay = true) {
  return key<&RunConfig::train, kMember>(name, std::move(rule), mark, unit, meaning, in_wordplay);
}
template <auto kMember>
Key data(std::string_view name, Rule rule, OnResume mark, std::string_view unit, std::string_view meaning,
         bool in_wordplay = true) {
  return key<&RunConfig::data, kMember>(name, std::move(rule), mark, unit, meaning, in_wordplay);
}
template <auto kMember>
Key optimizer(std::string_view name, Rule rule, OnResume mark, std::string_view unit, std::string_view meaning,
              bool in_wordplay = true) {
  return key<&RunConfig::optimizer, kMember>(name, std::move(rule), mark, unit, meaning, in_wordplay);
}
template <auto kMember>
Key sample(std::string_view name, Rule rule, OnResume mark, std::string_view unit, std::string_view meaning) {
  return key<&RunConfig::sample, kMember>(name, std::move(rule), mark, unit, meaning);
}

Json drawn_seed(std::string_view text) {
  if (text != "random") return {};
  std::random_device device;
  return static_cast<std::int64_t>(device() & 0x7fffffffU);
}

Json peak_tflops(std::string_view text) {
  const auto tflops = planner::peak_from(text);
  return tflops ? Json(*tflops) : Json();
}

std::string_view peak_names() {
  static const std::string text = [] {
    std::string names;
    for (const planner::Peak& peak : planner::peaks()) names += fmt::format("{}, ", peak.name);
    return names + "or a clock formula, MHz x FMAs a clock x units, as 1410x256x432";
  }();
  return text;
}

std::vector<Key> train_keys() {
  const Rule any = Rule::any(), positive = Rule::between(1, kMany), counted = Rule::between(0, kMany);
  return {
      train<&Train::framework>("train.framework", Rule::one_of({"pytorch"}), loose, "", "recorded only"),
      train<&Train::backend>(
          "train.backend", any, loose, "",
          "how ranks share the work; zero1 and the like, FSDP: names for memory.zero; deepspeed: zero1 in bf16; ps: "
          "parameter servers"),
      train<&Train::device>("train.device", any, loose, "",
                            "where to compute; null: a GPU with a good certificate, else the processor"),
      train<&Train::seed>("train.seed", Rule::or_named(counted, "random", drawn_seed), fixed, "",
                          "seed of every random draw; null: 1337; random: one is drawn and logged"),
      train<&Train::port>("train.port", Rule::between(1, 65535), loose, "", "recorded only"),
      train<&Train::ds_config_path>(
          "train.ds_config_path", any, loose, "",
          "of train.backend=deepspeed: settings from DeepSpeed's JSON; those given here stand above it"),
      train<&Train::precision>("train.precision", any, loose, "",
                               "another word for train.dtype, which follows it; there is no fp16, for bf16 needs no loss scaler"),
      train<&Train::ngpus>("train.ngpus", counted, loose, "", "recorded only"),
      train<&Train::use_wandb>("train.use_wandb", any, loose, "", "false: log.wandb is off"),
      train<&Train::eval_interval>("train.eval_interval", positive, loose, "iterations",
                                   "evaluate and write a sample this often"),
      train<&Train::log_interval>("train.log_interval", positive, loose, "iterations",
                                  "log a line this often, and one for the last iteration"),
      train<&Train::eval_iters>("train.eval_iters", Rule::between(1, 1'000'000), loose, "batches",
                                "batches of an evaluation, on each of train and val"),
      train<&Train::eval_only>("train.eval_only", any, loose, "", "evaluate once and stop"),
      train<&Train::always_save_checkpoint>("train.always_save_checkpoint", any, loose, "",
                                            "recorded only; see checkpoint.interval"),
      train<&Train::init_from>(
          "train.init_from", any, loose, "",
          "scratch, resume (newest in log.dir), auto (resume if possible, else scratch), a GGUF file, or the folder "
          "of a run, checkpoint or Hugging Face model"),
      train<&Train::wandb_project>("train.wandb_project", any, loose, "", "where examples/wandb_upload.py sends a run"),
      train<&Train::max_iters>("train.max_iters", positive, loose, "iterations", "optimizer steps of the run"),
      train<&Train::warmup_iters>("train.warmup_iters", counted, learns, "iterations", "steps in which the learning rate rises"),
      train<&Train::dtype>("train.dtype", any, learns, "", "type of weights and activations; see optimizer.master_weights"),
      train<&Train::compile>("train.compile", any, loose, "", "recorded only; kernels are fused unless kernels.* says otherwise"),
      train<&Train::threads>("train.threads", Rule::between(1, Team::most_threads), loose, "threads",
                             "size of the worker team; null: one a core", false),
  };
}

/// Behind train_keys(): when a run ends, and what its steps are.
std::vector<Key> train_step_keys() {
  const Rule any = Rule::any(), positive = Rule::between(1, kMany), counted = Rule::between(0, kMany);
  return {
      train<&Train::max_epochs>("train.max_epochs", positive, loose, "epochs",
                                "stop after as many (data.order is then partition); null: train.max_iters decides", false),
      train<&Train::max_minutes>("train.max_minutes", Rule::above(0, kMany), loose, "minutes",
                                 "save and stop after this time; null: no limit", false),
      train<&Train::kill_file>("train.kill_file", any, loose, "", "save and stop when this file exists, and delete it", false),
      train<&Train::save_file>("train.save_file", any, loose, "", "save when this file exists, delete it and go on", false),
      train<&Train::dump_step>("train.dump_step", counted, loose, "iteration",
                               "write its gradients and weights to a file; null: none", false),
      train<&Train::max_skipped>("train.max_skipped", positive, loose, "iterations",
                                 "as many in a row whose gradient is not finite end the run (exit code 3)", false),
      train<&Train::audit>("train.audit", counted, loose, "iterations",
                           "one in so many is done twice, and ranks that compute wrongly are named; 0: none", false),
      train<&Train::peak_tflops>("train.peak_tflops", Rule::or_named(Rule::above(0, kMany), peak_names(), peak_tflops), loose,
                                 "TFLOP/s", "what counts as 100 % MFU; null: the rate of multiply-adds, timed at the start",
                                 false),
      train<&Train::global_batch>("train.global_batch", any, loose, "",
                                  "on resume: the checkpoint's samples a step (optimizer.gas follows), or these settings'",
                                  false),
      train<&Train::objective>(
          "train.objective", any, fixed, "",
          "the loss of tokens; sft: the same, of text that says what is taught; dpo: of pairs of answers, of "
          "which one is preferred",
          false),
      train<&Train::tokens_per_step>("train.tokens_per_step", positive, loose, "tokens",
                                     "of all ranks; optimizer.gas follows. null: optimizer.gas says how many", false),
  };
}

std::vector<Key> data_keys() {
  const Rule any = Rule::any();
  return {
      data<&Data::dataset>("data.dataset", any, loose, "", "name of the prepared data set"),
      data<&Data::out_dir>("data.out_dir", any, loose, "", "recorded only; see log.dir"),
      data<&Data::root_path>("data.root_path", any, loose, "", "folder that holds the data sets; null: data"),
      data<&Data::dir>("data.dir", any, loose, "", "folder of prepared token files; null: <data.root_path>/<data.dataset>",
                       false),
      data<&Data::file>("data.file", any, loose, "", "local text to prepare the data set from instead of a download", false),
      data<&Data::order>("data.order", any, fixed, "",
                         "windows drawn at random, or epochs of windows that do not overlap, each rank its part", false),
      data<&Data::epoch_end>("data.epoch_end", any, fixed, "",
                             "an epoch's incomplete last batch is left out, or filled with the epoch's first windows", false),
      data<&Data::ids>("data.ids", Rule::one_of(lockstep::data::id_choices()), fixed, "",
                       "type of token ids without tokens.json or a header; auto: uint16, or uint32 above 65,536 tokens", false),
      data<&Data::shards>("data.shards", any, fixed, "",
                          "every rank draws from all of the text, or from a file of its own (prepare --shards)", false),
      data<&Data::io>("data.io", any, loose, "",
                      "each rank reads for itself, the same by MPI-IO, or data.readers ranks read and scatter to the others",
                      false),
      data<&Data::documents>("data.documents", any, fixed, "",
                             "documents of a sample do not see each other, and positions begin anew in each", false),
      data<&Data::readers>("data.readers", Rule::between(1, 1024), loose, "ranks", "that read, with data.io=readers", false),
      data<&Data::workers>("data.workers", Rule::between(0, 64), loose, "threads",
                           "of a rank that reads, each a step ahead of the one before; 0: a step is read when it begins", false),
  };
}

std::vector<Key> dpo_keys() {
  return {key<&RunConfig::dpo, &RunConfig::Dpo::beta>(
              "dpo.beta", Rule::above(0, kMany), learns, "",
              "how dear it is to leave the reference, the weights that the run began with: lower is freer"),
          key<&RunConfig::dpo, &RunConfig::Dpo::label_smoothing>("dpo.label_smoothing", Rule::below(0, 0.5), learns, "",
                                                                 "share of pairs that are thought to be the wrong way round")};
}

std::vector<Key> eval_keys() {
  return {key<&RunConfig::eval, &RunConfig::Eval::tasks>(
      "eval.tasks", Rule::any(), loose, "",
      "files of tasks, with commas between, that judge the model at each evaluation, as lockstep eval --task; null: none")};
}

std::vector<Key> optimizer_keys() {
  static const std::vector<std::string> methods = train::optimizer_names();
  const Rule any = Rule::any(), positive = Rule::between(1, kMany), rate = Rule::between(0, kMany);
  return {
      plan_key(layout::PlanField::gas, true),
      optimizer<&Optimizer::name>("optimizer.name", Rule::one_of({methods.begin(), methods.end()}), fixed, "",
                                  "the method (docs/optimizers.md)"),
      optimizer<&Optimizer::learning_rate>("optimizer.learning_rate", rate, learns, "", "highest learning rate"),
      optimizer<&Optimizer::weight_decay>("optimizer.weight_decay", rate, learns, "",
                                          "share of a weight lost each step, times the learning rate"),
      optimizer<&Optimizer::beta1>("optimizer.beta1", Rule::below(0, 1), learns, "", "AdamW, muon: memory of the mean gradient"),
      optimizer<&Optimizer::beta2>("optimizer.beta2", Rule::below(0, 1), learns, "",
                                   "AdamW, muon: memory of the mean squared gradient"),
      optimizer<&Optimizer::grad_clip>("optimizer.grad_clip", rate, learns, "", "largest norm of all gradients; 0: no clipping"),
      optimizer<&Optimizer::decay_lr>("optimizer.decay_lr", any, learns, "",
                                      "follow the schedule; false: constant learning rate"),
      optimizer<&Optimizer::lr_decay_iters>("optimizer.lr_decay_iters", positive, learns, "iterations",
                                            "wordplay, nanogpt: end of the schedule, then min_lr; the others end with the run"),
      optimizer<&Optimizer::min_lr>("optimizer.min_lr", rate, learns, "", "lowest learning rate"),
      optimizer<&Optimizer::momentum>("optimizer.momentum", Rule::below(0, 1), learns, "",
                                      "sgd, lars, muon: memory of the gradient; 0: none", false),
      optimizer<&Optimizer::eps>("optimizer.eps", Rule::above(0, kMany), learns, "", "AdamW, muon: added to the denominator",
                                 false),
      optimizer<&Optimizer::master_weights>("optimizer.master_weights", any, learns, "",
                                            "bf16: update an fp32 copy, with moments in fp32; false: neither", false),
      optimizer<&Optimizer::moments>("optimizer.moments", any, learns, "",
                                     "type of what the method keeps; null: fp32, or bf16 without master weights", false),
      optimizer<&Optimizer::rounding>("optimizer.rounding", any, learns, "",
                                      "of moments and weights in bf16; stochastic: nothing is lost on average", false),
      optimizer<&Optimizer::schedule>("optimizer.schedule", any, learns, "", "shape of the learning rate", false),
      optimizer<&Optimizer::wsd_decay>("optimizer.wsd_decay", Rule::between(0, 1), learns, "",
                                       "wsd: last share of the run, in which the rate falls, in whole iterations", false),
      optimizer<&Optimizer::decay>("optimizer.decay", any, learns, "", "which tensors decay: those of two dimensions, or all",
                                   false),
      optimizer<&Optimizer::lr_scaling>("optimizer.lr_scaling", any, learns, "",
                                        "learning rates times 1, the root of the ranks, or the ranks", false),
  };
}

std::vector<Key> sample_keys() {
  const Rule any = Rule::any(), positive = Rule::between(1, kMany), counted = Rule::between(0, kMany);
  return {
      sample<&Sample::prompt>("sample.prompt", any, loose, "", "start of the texts written meanwhile"),
      sample<&Sample::tokens>("sample.tokens", counted, loose, "tokens",
                              "length of the text written behind it; 0: none is written"),
      sample<&Sample::temperature>("sample.temperature", Rule::between(0, kMany), loose, "",
                                   "divides the logits: lower is safer, higher is wilder; 0: always the likeliest token"),
      sample<&Sample::top_k>("sample.top_k", positive, loose, "tokens", "draw from this many likeliest tokens; null: all"),
      sample<&Sample::top_p>("sample.top_p", Rule::above(0, 1), loose, "", "draw from the likeliest that make up this share"),
      sample<&Sample::every>("sample.every", any, loose, "",
                             "evaluations, or epochs:N: a text after the first epoch and after every N-th from it"),
  };
}

std::vector<Key> comm_and_numerics_keys() {
  const Rule any = Rule::any();
  return {
      key<&RunConfig::comm, &RunConfig::Comm::timeout>("comm.timeout", Rule::above(0, kMany), loose, "seconds",
                                                       "a collective that a rank does not enter ends the run after it"),
      key<&RunConfig::numerics, &RunConfig::Numerics::isa>("numerics.isa", any, loose, "",
                                                           "instruction set; auto: the machine's widest"),
      key<&RunConfig::numerics, &RunConfig::Numerics::products>(
          "numerics.products", any, learns, "",
          "who multiplies matrices: ours, the same bits whatever the layout, or library (oneDNN), whose bits may differ"),
      key<&RunConfig::numerics, &RunConfig::Numerics::bf16>(
          "numerics.bf16", any, fixed, "",
          "how products of two bf16 matrices add: in the order of fp32 (widened), in pairs as AVX-512-bf16 does, or as AMX does. "
          "'auto': what is fastest, where it is the same on every rank's processor, and on a resume what the run has"),
      plan_key(layout::PlanField::canonical),
  };
}

std::vector<Key> kernel_keys() {
  const Rule any = Rule::any();
  return {
      key<&RunConfig::kernels, &RunConfig::Kernels::mask>(
          "kernels.mask", any, loose, "",
          "materialised attention: keys behind a query are hidden by their numbers, or by a mask that every block keeps"),
      key<&RunConfig::kernels, &RunConfig::Kernels::products>(
          "kernels.products", any, loose, "",
          "products of layers: packed and tiled, or plain loops that the compiler vectorises; the same bits"),
      key<&RunConfig::kernels, &RunConfig::Kernels::adamw>(
          "kernels.adamw", any, loose, "", "one pass, or a pass over a tensor for every operation; the same bits"),
      key<&RunConfig::kernels, &RunConfig::Kernels::norm>("kernels.norm", any, loose, "",
                                                          "one pass, or a pass over all rows for every operation; the same bits"),
      key<&RunConfig::kernels, &RunConfig::Kernels::attention>(
          "kernels.attention", any, learns, "",
          "weights are made a block of keys at a time and never kept, or kept whole by every block, which adds in another order"),
      key<&RunConfig::kernels, &RunConfig::Kernels::epilogues>(
          "kernels.epilogues", any, loose, "",
          "bias, activation and residual are done while a product's tile is in cache; false: in a pass behind it; the same bits"),
  };
}

std::vector<Key> checkpoint_and_log_keys() {
  const Rule any = Rule::any(), positive = Rule::between(1, kMany);
  return {
      key<&RunConfig::checkpoint, &RunConfig::Checkpoint::interval>("checkpoint.interval", positive, loose, "iterations",
                                                                    "save this often; null: train.eval_interval"),
      key<&RunConfig::checkpoint, &RunConfig::Checkpoint::seconds>(
          "checkpoint.seconds", Rule::above(0, kMany), loose, "seconds",
          "save by the clock too, while that holds up training for 2 % of the time at most; null: never; a launched run: 30"),
      key<&RunConfig::checkpoint, &RunConfig::Checkpoint::async>(
          "checkpoint.async", any, loose, "",
          "training goes on while a checkpoint is written; what an update would change first is copied; null: false; a launched "
          "run: true"),
      key<&RunConfig::checkpoint, &RunConfig::Checkpoint::copies>(
          "checkpoint.copies", any, loose, "",
          "neighbour: saves by the clock go into /dev/shm, each rank's part on its host and the next; the next start finds them"),
      key<&RunConfig::log, &RunConfig::Logging::name>("log.name", any, loose, "", "name of the run; null: made up"),
      key<&RunConfig::log, &RunConfig::Logging::dir>("log.dir", any, loose, "", "folder of the run; null: runs/<log.name>"),
      key<&RunConfig::log, &RunConfig::Logging::style>("log.style", any, loose, "",
                                                       "lines of progress: few; or wordplay's, one every train.log_interval; or "
                                                       "rasbt's at evaluations. These come after the "
                                                       "first iteration and after every train.eval_interval from it"),
      key<&RunConfig::log, &RunConfig::Logging::all_ranks>("log.all_ranks", any, loose, "", "every rank logs, not rank 0 alone"),
      key<&RunConfig::log, &RunConfig::Logging::tensorboard>("log.tensorboard", any, loose, "",
                                                             "also write curves for TensorBoard into the run's folder"),
      key<&RunConfig::log, &RunConfig::Logging::wandb>(
          "log.wandb", any, loose, "",
          "offline: also write Weights & Biases' keys into wandb-history.jsonl, which examples/wandb_upload.py sends; "
          "WANDB_DISABLED=true in the environment: off"),
      key<&RunConfig::log, &RunConfig::Logging::trace>(
          "log.trace", any, loose, "", "also write when each rank did what to trace.json, for Perfetto or chrome://tracing"),
      key<&RunConfig::log, &RunConfig::Logging::trace_steps>("log.trace_steps", positive, loose, "iterations",
                                                             "of log.trace: the first as many since the start"),
      key<&RunConfig::log, &RunConfig::Logging::machine>(
          "log.machine", any, loose, "",
          "file of this machine (lockstep doctor --machine-file). The run's end says what lockstep plan predicts of its step and "
          "memory beside what was measured. Null: it does not"),
  };
}

}  // namespace

std::span<const Group> groups() {
  static const std::vector<Group> all = {{"train", "the run"},
                                         {"model", "the network"},
                                         {"adapter", "low-rank matrices that are trained in its place"},
                                         {"data", "what it reads"},
                                         {"dpo", "how answers are preferred, with train.objective=dpo"},
                                         {"eval", "how it is judged, beside its losses"},
                                         {"optimizer", "how it learns"},
                                         {"sample", "text written while training"},
                                         {"parallel", "how ranks share the work"},
                                         {"memory", "what a rank keeps, and what it makes again"},
                                         {"comm", "how ranks talk"},
                                         {"numerics", "how it computes"},
                                         {"kernels", "which of two ways kernels take: what an optimisation is worth"},
                                         {"checkpoint", "what it saves"},
                                         {"log", "where it writes"}};
  return all;
}

std::span<const Key> keys() {
  static const std::vector<Key> all = [] {
    std::vector<Key> table;
    for (const auto& part :
         {train_keys(), train_step_keys(), model_keys(), adapter_keys(), dpo_keys(), data_keys(), eval_keys(), optimizer_keys(),
          sample_keys(), parallel_keys(), memory_keys(), comm_and_numerics_keys(), kernel_keys(), checkpoint_and_log_keys()}) {
      table.insert(table.end(), part.begin(), part.end());
    }
    return table;
  }();
  return all;
}

const Key* find_key(std::string_view name) {
  const bool whole = name.find('.') != name.npos;
  const Key* found = nullptr;
  for (const Key& key : keys()) {
    if ((whole ? key.name : key.option()) != name) continue;
    if (found != nullptr) return nullptr;
    found = &key;
  }
  return found;
}

}  // namespace lockstep::settings
