#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/loaded_model.h"
#include "app/start/output_file.h"
#include "base/terminal.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "checkpoint/tensor_file.h"
#include "comm/agreement.h"
#include "data/corpus.h"
#include "data/loader.h"
#include "data/verification.h"
#include "io/file.h"
#include "train/text_loss.h"

namespace lockstep::app {
namespace {

struct EvalOptions {
  std::string model, tokens, data, logits;
  std::string split;
  std::string checkpoint = "best";
  std::string isa = "auto";
  std::string dtype = std::string(stored_dtype);
  std::optional<std::int64_t> length;
  std::int64_t threads = 0, ranks = 1, tp = 1, pp = 1;
  bool json = false;
};

bool parse(const Arguments& arguments, EvalOptions& options) {
  CommandLine line("eval", "Loss, perplexity and bits per byte of a trained model on a text, window by window.");
  line.option("--model", options.model, "FOLDER", "folder of a run, a checkpoint or a Hugging Face model");
  line.option("--data", options.data, "FOLDER", "prepared text (default: the one the model was trained on)");
  line.choice("--split", options.split, {"val", "train"}, "which part of the prepared text (default val)");
  line.option("--tokens", options.tokens, "FILE", "a raw token file instead of prepared text");
  line.option("--length", options.length, "T",
              "tokens a window, stride too (default: the model's block size; of a Hugging Face model at most 1024)");
  line.option("--logits", options.logits, "FILE", "write logits [windows, T, vocabulary] in fp32 as safetensors");
  line.option("--checkpoint", options.checkpoint, "WHICH", "best, last or a step number");
  line.option("--ranks", options.ranks, "N", "ranks that share the windows and the cores");
  line.option("--tp", options.tp, "N", "of the ranks so many together have one copy of the model, each a part of every layer");
  line.option("--pp", options.pp, "N", "of the ranks so many together have one copy of the model, each a part of its layers");
  line.option("--threads", options.threads, "N", "of each rank; 0: its share of the cores");
  line.choice("--dtype", options.dtype, dtype_choices(), "type of weights and activations; stored: as it was trained");
  line.option("--isa", options.isa, "SET", "auto, avx2, avx512, avx512_bf16");
  line.flag("--json", options.json, "print one JSON object: loss, perplexity, tokens");
  line.note("example:\n  lockstep eval --model runs/first --tokens data/fortunes/val.bin --length 64");
  if (!line.parse(arguments)) return false;
  std::vector<Problem> problems;
  if (options.model.empty()) problems.push_back({"--model is missing", "give the folder of a run: --model runs/NAME"});
  if (!options.tokens.empty() && !options.data.empty())
    problems.push_back({"--tokens and --data exclude each other", "give one of them"});
  if (!options.tokens.empty() && !options.split.empty())
    problems.push_back({"--tokens and --split exclude each other", "give one of them"});
  if (options.split.empty()) options.split = "val";
  if (!problems.empty()) throw UserError(std::move(problems));
  return true;
}

/// The token file that the options mean.
data::TokenText open_text(const EvalOptions& options, const LoadedModel& loaded, Session& session, Log& log) {
  const std::int64_t vocabulary = loaded.inference->context().config.vocabulary;
  if (!options.tokens.empty()) return data::open_tokens(options.tokens, vocabulary);
  std::string folder = options.data;
  if (folder.empty()) {
    const Json* known = loaded.manifest.run.is_object() ? loaded.manifest.run.find("data_folder") : nullptr;
    if (known == nullptr) throw UserError("the model does not say what it was trained on", "give --data FOLDER or --tokens FILE");
    folder = known->string();
  }
  const std::array<std::string, 1> name{options.split + ".bin"};
  data::TokenText text = data::open_tokens(io::Path(folder) / name[0], vocabulary);
  comm::together(session.world(), [&] {
    const auto description = data::read_description(folder);
    if (session.lead() && description && description->find(name[0]) != nullptr)
      data::verify_files(folder, *description, name, log);
  });
  return text;
}

/// Writes logits as they come: the table of the file is known from the start.
class LogitsFile {
 public:
  LogitsFile(const std::string& path, std::int64_t windows, std::int64_t length, std::int64_t vocabulary)
      : replacement_(path),
        writer_(replacement_.file(),
                std::vector<checkpoint::LogicalTensor>{{"logits", Shape{windows, length, vocabulary}, DType::f32}}) {
    writer_.lay_out();
  }
  void add(const Tensor& logits) {
    writer_.write(0, {next_, logits.flat(0, logits.elements())});
    next_ += logits.elements();
  }
  void commit() { replacement_.commit(); }

 private:
  io::Replacement replacement_;
  checkpoint::TensorFileWriter writer_;
  std::int64_t next_ = 0;
};

/// The text's loss; rank 0 shows how far it is, and writes logits where they are asked for.
train::TextLoss evaluate(const EvalOptions& options, const LoadedModel& loaded, const data::TokenFile& file, std::int64_t length,
                         std::int64_t windows, Session& session) {
  train::TextLossRequest request{.length = length, .logits = !options.logits.empty()};
  std::optional<LogitsFile> out;
  std::optional<ProgressBar> bar;
  if (session.lead()) {
    if (request.logits) out.emplace(options.logits, windows, length, loaded.inference->context().config.vocabulary);
    bar.emplace(stderr, "eval", static_cast<double>(windows));
    request.take_logits = [&out](const Tensor& logits) { out->add(logits); };
    request.have_windows = [&bar](std::int64_t done) { bar->update(static_cast<double>(done), ""); };
  }
  const train::TextLoss result = train::loss_of_text(*loaded.inference, file, request, session.runtime());
  if (bar) bar->finish();
  if (out) out->commit();
  return result;
}

void evaluate_model(const EvalOptions& options, Session& session) {
  Log log(stderr, session.lead() ? Level::warning : Level::critical);
  const LoadedModel loaded = load_model(
      options.model, options.checkpoint,
      {.type = chosen_dtype(options.dtype), .context = options.length, .tp = options.tp, .pp = options.pp}, session, log);
  const std::int64_t block = loaded.inference->context().config.block_size;
  const std::int64_t length = options.length.value_or(block);
  if (length < 1 || length > block) {
    throw UserError(fmt::format("--length {}: the model reads 1 to {} tokens at a time", length, block),
                    fmt::format("--length {}", block));
  }
  const data::TokenText text = open_text(options, loaded, session, log);
  data::demand_known_ids(text.file, loaded.inference->context().config.vocabulary);
  const std::int64_t windows = data::whole_file_sampler(text.file, length).windows();
  const train::TextLoss result = evaluate(options, loaded, text.file, length, windows, session);
  if (!session.lead()) return;
  const double perplexity = std::exp(result.loss);
  if (options.json) {
    Json json;
    json.set("loss", result.loss);
    json.set("perplexity", perplexity);
    json.set("tokens", result.tokens);
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("model          {}\n", visible(loaded.folder));
  fmt::print("text           {}\n", visible(text.file.path()));
  fmt::print("windows        {} of {} tokens\n", format_count(windows), length);
  fmt::print("{:<15}{}\n", text.file.masked() ? "taught tokens" : "tokens", format_count(result.tokens));
  fmt::print("loss           {:.6f} nats a token\n", result.loss);
  fmt::print("perplexity     {:.4f}\n", perplexity);
  if (text.text_bytes > 0) {
    const double tokens_per_byte = static_cast<double>(text.targets) / static_cast<double>(text.text_bytes);
    fmt::print("bits per byte  {:.4f}\n", result.loss / std::numbers::ln2 * tokens_per_byte);
  }
}

int run(const Arguments& arguments) {
  EvalOptions options;
  if (!parse(arguments, options)) return 0;
  demand_output("--logits", options.logits, is_own_logits);
  const RankOptions ranks{.ranks = options.ranks, .threads = options.threads, .isa = ops::isa_from_name(options.isa)};
  run_on_ranks(ranks, [&](Session& session) { evaluate_model(options, session); });
  return 0;
}

}  // namespace

Command eval_command() { return {"eval", "loss and perplexity of a trained model", run}; }

}  // namespace lockstep::app
