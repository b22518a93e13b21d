#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/loaded_model.h"
#include "base/terminal.h"
#include "base/units.h"
#include "checkpoint/tensor_file.h"
#include "data/corpus.h"
#include "data/loader.h"
#include "io/file.h"
#include "model/decoder.h"
#include "train/evaluator.h"

namespace lockstep::app {
namespace {

struct EvalOptions {
  std::string model, tokens, data, logits;
  std::string split = "val";
  std::string checkpoint = "best";
  std::string isa = "auto";
  std::string dtype = std::string(stored_dtype);
  std::optional<std::int64_t> length;
  std::int64_t threads = 0, ranks = 1;
  bool json = false;
};

bool parse(const Arguments& arguments, EvalOptions& options) {
  CommandLine line("eval", "Loss, perplexity and bits per byte of a trained model on a text, window by window.");
  line.option("--model", options.model, "FOLDER", "folder of a run, a checkpoint or a Hugging Face model");
  line.option("--data", options.data, "FOLDER", "prepared text (default: the one the model was trained on)");
  line.choice("--split", options.split, {"val", "train"}, "which part of the prepared text");
  line.option("--tokens", options.tokens, "FILE", "a raw token file instead of prepared text");
  line.option("--length", options.length, "T",
              "tokens a window, stride too (default: the model's block size; of a Hugging Face model at most 1024)");
  line.option("--logits", options.logits, "FILE", "write logits [windows, T, vocabulary] in fp32 as safetensors");
  line.option("--checkpoint", options.checkpoint, "WHICH", "best, last or a step number");
  line.option("--ranks", options.ranks, "N", "ranks that share the windows and the cores");
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
  if (!problems.empty()) throw UserError(std::move(problems));
  return true;
}

/// The token file that the options mean.
data::TokenText open_text(const EvalOptions& options, const LoadedModel& loaded) {
  const std::int64_t vocabulary = loaded.inference->context().config.vocabulary;
  if (!options.tokens.empty()) return data::open_tokens(options.tokens, vocabulary);
  std::string folder = options.data;
  if (folder.empty()) {
    const Json* known = loaded.manifest.run.is_object() ? loaded.manifest.run.find("data_folder") : nullptr;
    if (known == nullptr) throw UserError("the model does not say what it was trained on", "give --data FOLDER or --tokens FILE");
    folder = known->string();
  }
  return data::open_tokens(io::Path(folder) / (options.split + ".bin"), vocabulary);
}

struct Result {
  double loss = 0;
  std::int64_t tokens = 0, windows = 0;
};

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

Result evaluate(const EvalOptions& options, const LoadedModel& loaded, const data::TokenFile& file, std::int64_t length,
                Session& session) {
  const model::Context& context = loaded.inference->context();
  const data::Sampler sampler = data::whole_file_sampler(file, length);
  const std::int64_t samples = std::clamp<std::int64_t>(1024 / length, 1, sampler.windows());
  data::WindowReader reader(file, sampler, samples, length, sampler.windows());
  model::Decoder decoder(context, samples, samples * length);
  Arena workspace("eval", MemoryKind::workspace);
  Arena cache("eval_cache", MemoryKind::workspace);
  Arena text("eval_text", MemoryKind::data);
  Tensor tokens, targets;
  Mirror logits, loss;
  reader.declare(text);
  workspace.declare(tokens, "tokens", Shape{samples * length}, DType::i32);
  workspace.declare(targets, "targets", Shape{samples * length}, DType::i32);
  workspace.declare(loss, "loss", Shape{1}, DType::f64);
  decoder.declare(workspace, cache);
  if (!options.logits.empty()) workspace.declare(logits, "logits", Shape{samples * length, context.dims.vocabulary}, DType::f32);
  Ledger ledger;
  workspace.commit(session.runtime(), ledger);
  cache.commit(session.runtime(), ledger);
  text.commit(session.runtime().memory(Space::pinned), ledger);
  std::optional<LogitsFile> out;
  Stream& stream = session.ops().stream();
  comm::Communicator& world = session.world();
  if (!options.logits.empty() && session.lead()) out.emplace(options.logits, sampler.windows(), length, context.dims.vocabulary);

  // Batches are dealt out to the ranks; their losses are added in their order.
  std::vector<double> losses(static_cast<std::size_t>(reader.batches()));
  std::optional<ProgressBar> bar;
  if (session.lead()) bar.emplace(stderr, "eval", static_cast<double>(sampler.windows()));
  Result result{.windows = sampler.windows()};
  for (std::int64_t i = 0; i < reader.batches(); ++i) {
    const int owner = static_cast<int>(i % world.size());
    const std::int64_t windows = std::min(samples, sampler.windows() - i * samples);
    const auto top = [&](const Tensor& all) { return all ? all.slice_rows(0, windows * length) : Tensor{}; };
    const Mirror kept{top(logits.device), top(logits.host)};
    const Tensor rows = kept.device;
    if (owner == world.rank()) {
      const data::Batch& batch = reader.read(i);
      decoder.cache().set_length(0);
      copy(stream, tokens, batch.tokens);
      copy(stream, targets, batch.targets);
      const Tensor x = decoder.read(tokens, samples, length);
      elements<double>(loss.host)[0] = 0;
      upload(stream, loss);
      decoder.loss(x, {targets, loss.device});
      download(stream, loss);
      losses[static_cast<std::size_t>(i)] = elements<double>(loss.host)[0];
      result.tokens += batch.target_count;
      if (rows) decoder.logits(rows, x.slice_rows(0, windows * length));
      if (rows && !session.lead()) world.send(rows, 0).wait();
    } else if (rows && session.lead()) {
      world.receive(rows, owner).wait();
    }
    if (out) {
      download(stream, kept);
      out->add(kept.host);
    }
    if (bar) bar->update(static_cast<double>(i * samples + windows), "");
  }
  world.host().all_reduce(view(std::span(losses), Shape{std::ssize(losses)}), comm::Reduction::sum).wait();
  world.host().all_reduce(view(std::span(&result.tokens, 1), Shape{1}), comm::Reduction::sum).wait();
  if (bar) bar->finish();
  if (out) out->commit();
  train::demand_targets(result.tokens, file);
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(result.tokens);
  return result;
}

void evaluate_model(const EvalOptions& options, Session& session) {
  Log log(stderr, session.lead() ? Level::warning : Level::critical);
  const LoadedModel loaded =
      load_model(options.model, options.checkpoint, {chosen_dtype(options.dtype), options.length}, session, log);
  const std::int64_t block = loaded.inference->context().config.block_size;
  const std::int64_t length = options.length.value_or(block);
  if (length < 1 || length > block) {
    throw UserError(fmt::format("--length {}: the model reads 1 to {} tokens at a time", length, block),
                    fmt::format("--length {}", block));
  }
  const data::TokenText text = open_text(options, loaded);
  if (const std::int64_t own = loaded.inference->context().config.vocabulary; text.file.format().vocabulary > own) {
    throw UserError(fmt::format("{} has tokens of a vocabulary of {}, the model one of {}", text.file.path(),
                                text.file.format().vocabulary, own),
                    "prepare the text with the tokenizer that the model was trained with");
  }
  const Result result = evaluate(options, loaded, text.file, length, session);
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
  fmt::print("model          {}\n", loaded.folder);
  fmt::print("text           {}\n", text.file.path());
  fmt::print("windows        {} of {} tokens\n", format_count(result.windows), length);
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
  const RankOptions ranks{.ranks = options.ranks, .threads = options.threads, .isa = ops::isa_from_name(options.isa)};
  run_on_ranks(ranks, [&](Session& session) { evaluate_model(options, session); });
  return 0;
}

}  // namespace

Command eval_command() { return {"eval", "loss and perplexity of a trained model", run}; }

}  // namespace lockstep::app
