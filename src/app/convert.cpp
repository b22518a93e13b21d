// Models to and from Hugging Face's folders and GGUF files.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/folder/folder_owner.h"
#include "app/folder/run_record.h"
#include "app/published/gguf_files.h"
#include "app/published/published_files.h"
#include "arch/config_json.h"
#include "arch/parameters.h"
#include "base/log.h"
#include "base/shell.h"
#include "base/text/lower.h"
#include "base/text/visible.h"
#include "base/timer.h"
#include "base/units.h"
#include "checkpoint/find.h"
#include "checkpoint/huggingface/adapter.h"
#include "checkpoint/huggingface/export.h"
#include "checkpoint/huggingface/gguf_export.h"
#include "checkpoint/huggingface/import.h"

namespace lockstep::app {
namespace {

namespace huggingface = checkpoint::huggingface;

struct ConvertOptions {
  std::string from, to;
  std::string type = "auto", gguf_type = "auto";
  std::string checkpoint = "best";
  std::optional<std::int64_t> shard_megabytes;
  std::int64_t threads = 0;
  bool merge = false;

  bool to_gguf() const { return lower(io::Path(to).extension().string()) == ".gguf"; }
};

bool parse(const Arguments& arguments, ConvertOptions& options) {
  CommandLine line("convert",
                   "Turn a Hugging Face model or a GGUF file into a checkpoint, or a checkpoint into a Hugging Face model. What "
                   "FROM is decides. Any of them becomes a GGUF file where TO ends in .gguf. GPT-2, Llama and its kin "
                   "(docs/models.md), in fp32, fp16 and bf16, in one file or several. A run that trained adapters "
                   "gives these alone, as a folder that PEFT reads.");
  line.positional("FROM", options.from,
                  "a folder with config.json and safetensors, or a .safetensors file with config.json beside it; a GGUF file; "
                  "or the folder of a run or checkpoint");
  line.positional("TO", options.to, "the folder to make, or a file NAME.gguf; it must not exist");
  line.choice(
      "--dtype", options.type, {"auto", "fp32", "bf16", "fp16"},
      "type of the weights that are written; auto: fp32 in a checkpoint, in a Hugging Face model what the checkpoint has. "
      "Checkpoints have no fp16");
  line.choice("--type", options.gguf_type, {"auto", "f32", "f16", "bf16", "q8_0"},
              "type of the matrices in a GGUF file; auto: what FROM has. Vectors and learned positions stay f32, and rows that "
              "are no multiple "
              "of 32 are f16 instead of q8_0");
  line.option("--checkpoint", options.checkpoint, "best|last|STEP", "of a run");
  line.flag("--merge", options.merge,
            "add a run's adapters to the matrices that they are beside, in fp32; without it they become a folder for PEFT");
  line.option("--shard-size", options.shard_megabytes, "MB",
              "weights of a Hugging Face model go to several files of at most so many million bytes; 5000 without it");
  line.option("--threads", options.threads, "N", "threads that convert; 0: every core");
  line.note(
      "Weights are moved in pieces: memory does not grow with the model. A tokenizer.json is taken along, both ways. TO appears "
      "when it is complete, or not at all.");
  line.note(
      "examples:\n"
      "  lockstep convert downloads/gpt2 models/gpt2\n"
      "  lockstep generate models/gpt2 --prompt \"Hello\"\n"
      "  lockstep convert runs/first exported/first --dtype bf16\n"
      "  lockstep convert runs/first exported/first.gguf --type q8_0\n"
      "generate, eval and train.init_from read Hugging Face folders and GGUF files as they are, too.");
  if (!line.parse(arguments)) return false;
  std::vector<Problem> problems;
  if (options.shard_megabytes && *options.shard_megabytes < 1) {
    problems.push_back(
        {fmt::format("--shard-size {}: must be at least 1", *options.shard_megabytes), "--shard-size 5000 is the usual one"});
  } else if (options.shard_megabytes && options.to_gguf()) {
    problems.push_back({fmt::format("--shard-size {}: a GGUF file is written whole", *options.shard_megabytes), "leave it out"});
  }
  if (options.threads < 0 || options.threads > Team::most_threads) {
    problems.push_back(
        {fmt::format("--threads {}: must be from 0 to {}", options.threads, Team::most_threads), "--threads 0 takes every core"});
  }
  if (options.to_gguf() && options.type != "auto")
    problems.push_back({fmt::format("--dtype {}: a GGUF file has types of its own", options.type), "say it with --type"});
  if (!options.to_gguf() && options.gguf_type != "auto")
    problems.push_back({fmt::format("--type {}: {} is no GGUF file", options.gguf_type, options.to),
                        "let its name end in .gguf, or say the type of a folder with --dtype"});
  if (!problems.empty()) throw UserError(std::move(problems));
  return true;
}

std::optional<huggingface::ElementType> type_of(const std::string& name) {
  if (name == "fp32") return huggingface::ElementType::f32;
  if (name == "fp16") return huggingface::ElementType::f16;
  if (name == "bf16") return huggingface::ElementType::bf16;
  if (name == "f32") return huggingface::ElementType::f32;
  if (name == "f16") return huggingface::ElementType::f16;
  if (name == "q8_0") return huggingface::ElementType::q8_0;
  return std::nullopt;
}

void report(const ConvertOptions& options, const arch::ModelConfig& model, std::uint64_t bytes, std::string_view more,
            double started) {
  fmt::print("converted {} to {}: {} parameters, {}{}, in {}\n", visible(options.from), visible(options.to),
             format_si(static_cast<double>(arch::count_parameters(model).total)), format_bytes(bytes), more,
             format_seconds(now_seconds() - started));
}

void demand_place(const std::string& to) {
  huggingface::demand_new(to);
  std::vector<Problem> problems = check_place(to, FolderOwner::nobody, to, "name a folder of its own: models/NAME");
  if (!problems.empty()) throw UserError(std::move(problems));
}

void to_checkpoint(const ConvertOptions& options, Team& team, Log& log) {
  const double started = now_seconds();
  std::vector<Problem> problems;
  if (options.type == "fp16")
    problems.push_back({"--dtype fp16: a checkpoint is fp32 or bf16", "leave it out: fp32 holds fp16 exactly"});
  if (options.shard_megabytes)
    problems.push_back({fmt::format("--shard-size {}: {} becomes a checkpoint, which has files of its own",
                                    *options.shard_megabytes, options.from),
                        "leave it out"});
  if (!problems.empty()) throw UserError(std::move(problems));
  demand_place(options.to);
  const huggingface::Weights weights(options.from);
  for (const std::string& warning : weights.warnings()) log.warning(warning);
  const std::uint64_t bytes = huggingface::import_model(weights, options.to, options.type == "bf16" ? DType::bf16 : DType::f32,
                                                        carried_from(weights.folder(), log), team);
  report(options, weights.config(), bytes, "", started);
  fmt::print("next: {}, or {}\n", own_command({"generate", options.to}),
             own_command({"train", "DATA", "train.init_from=" + options.to}));
}

checkpoint::Choice checkpoint_of(const ConvertOptions& options, Log& log) {
  checkpoint::Choice choice = checkpoint::choose_checkpoint(options.from, options.checkpoint);
  for (const std::string& reason : choice.passed_over) log.warning(reason);
  const Json& run = choice.manifest.run;
  if (!run.is_object() || run.find("tokenizer") == nullptr) log.warning("the checkpoint has no tokenizer to take along");
  return choice;
}

void to_adapter(const ConvertOptions& options, const checkpoint::Reader& reader, const arch::ModelConfig& model, double started) {
  if (options.type != "auto")
    throw UserError(fmt::format("--dtype {}: adapters are written in fp32", options.type), "leave it out, or take --merge too");
  if (options.shard_megabytes)
    throw UserError(fmt::format("--shard-size {}: adapters are one file", *options.shard_megabytes),
                    "leave it out, or take --merge too");
  const std::string base = origin_of(reader.manifest().run);
  const std::uint64_t bytes = huggingface::export_adapter(reader, options.to, base);
  fmt::print("converted the adapters of {} to {}: {} parameters, {}, in {}\n", visible(options.from), visible(options.to),
             format_si(static_cast<double>(arch::count_parameters(model).trained)), format_bytes(bytes),
             format_seconds(now_seconds() - started));
  if (!base.empty()) fmt::print("next: {}\n", own_command({"generate", base, "--adapter", options.to}));
}

void from_checkpoint(const ConvertOptions& options, Team& team, Log& log) {
  const double started = now_seconds();
  demand_place(options.to);
  const checkpoint::Choice choice = checkpoint_of(options, log);
  const checkpoint::Reader reader(choice.folder);
  arch::ModelConfig model = arch::model_from_json(reader.manifest().model, choice.folder.string());
  if (options.merge && !model.adapter.used()) {
    throw UserError(fmt::format("--merge: {} has no adapters", choice.folder.string()),
                    "leave it out: all of the model is written");
  }
  if (model.adapter.used() && !options.merge) return to_adapter(options, reader, model, started);
  model.adapter = {};
  huggingface::ExportOptions wanted = published_extras(reader.manifest().run);
  wanted.type = type_of(options.type);
  wanted.shard_bytes = static_cast<std::uint64_t>(options.shard_megabytes.value_or(5000)) * 1'000'000;
  const huggingface::ExportReport written = huggingface::export_model(reader, options.to, wanted, team);
  report(options, model, written.bytes,
         fmt::format(" of {} in {} file{}", huggingface::stored_name(written.type), written.files, written.files == 1 ? "" : "s"),
         started);
}

/// Beside the file, where there is none: what exists is never replaced.
void write_modelfile(const io::Path& file, const std::string& rest, Log& log) {
  const io::Path path = io::folder_of(file) / "Modelfile";
  if (io::exists(path)) return log.warning(fmt::format("{} is there and stays as it is", path.string()));
  io::replace_file(path, fmt::format("FROM ./{}\n{}", file.filename().string(), rest));
}

void to_gguf(const ConvertOptions& options, Team& team, Log& log) {
  const double started = now_seconds();
  demand_place(options.to);
  std::optional<huggingface::Weights> weights;
  std::optional<checkpoint::Reader> reader;
  Json run;
  arch::ModelConfig model;
  if (huggingface::is_published(options.from)) {
    weights.emplace(options.from);
    for (const std::string& warning : weights->warnings()) log.warning(warning);
    run = carried_from(weights->folder(), log);
    model = weights->config();
  } else {
    const checkpoint::Choice choice = checkpoint_of(options, log);
    reader.emplace(choice.folder);
    run = reader->manifest().run;
    model = arch::model_from_json(reader->manifest().model, choice.folder.string());
  }
  if (model.adapter.used() && !options.merge) {
    throw UserError(fmt::format("{} has adapters, and a GGUF file has a whole model", options.from),
                    "--merge adds them to the matrices that they are beside");
  }
  model.adapter = {};
  const GgufFiles files = gguf_files(run, model, log);
  const huggingface::GgufOptions wanted{.type = type_of(options.gguf_type), .pairs = files.pairs, .facts = files.facts};
  const huggingface::ExportReport written = weights ? huggingface::export_gguf(*weights, options.to, wanted, team)
                                                    : huggingface::export_gguf(*reader, options.to, wanted, team);
  write_modelfile(options.to, files.modelfile, log);
  report(options, model, written.bytes, fmt::format(" of {}", huggingface::stored_name(written.type)), started);
}

/// What says something of a run alone, where `from` is none.
void demand_run(const ConvertOptions& options) {
  std::vector<Problem> problems;
  if (options.merge) problems.push_back({fmt::format("--merge: {} has no adapters of a run", options.from), "leave it out"});
  if (options.checkpoint != "best")
    problems.push_back({fmt::format("--checkpoint {}: {} is no run", options.checkpoint, options.from), "leave it out"});
  if (!problems.empty()) throw UserError(std::move(problems));
}

int run(const Arguments& arguments) {
  ConvertOptions options;
  if (!parse(arguments, options)) return 0;
  const bool published = huggingface::is_published(options.from);
  if (published) demand_run(options);
  Log log(stderr, Level::warning);
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  Team team(static_cast<int>(options.threads > 0 ? options.threads : cores));
  if (options.to_gguf()) {
    to_gguf(options, team, log);
    return 0;
  }
  published ? to_checkpoint(options, team, log) : from_checkpoint(options, team, log);
  return 0;
}

}  // namespace

Command convert_command() { return {"convert", "models to and from Hugging Face's folders and GGUF files", run}; }

}  // namespace lockstep::app
