#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "app/cli/commands.h"
#include "app/eval_task.h"
#include "app/eval_text.h"
#include "app/folder/answer_line.h"
#include "app/loaded_model.h"
#include "base/math/elementary.h"
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
  ModelOptions from;
  std::string data, logits;
  std::string split, ids = std::string(data::any_ids);
  std::optional<std::int64_t> length, stride;
  std::vector<std::string> tasks;
};

/// DATA is a text or a token file; else prepared text.
bool is_file(const EvalOptions& options) { return !options.data.empty() && !io::is_folder(options.data); }

void declare(AnswerLine& line, EvalOptions& options) {
  options.from.declare(line, "the windows and the cores");
  line.positional(
      "DATA", options.data,
      "a text, a folder of prepared text or a token file (default: the text that the model was trained on). The model's own "
      "tokenizer reads a text. Token files are raw ids, llm.c's, or Megatron's with its .idx",
      false, {"--data", "--tokens"});
  line.choice("--split", options.split, {"val", "train"}, "which part of the prepared text (default val)");
  const std::vector<std::string_view> types = data::id_choices();
  line.choice("--ids", options.ids, {types.begin(), types.end()},
              "type of raw ids; auto: uint16, or uint32 where the model has more than 65,536 tokens");
  line.option("--length", options.length, "T",
              "tokens a window (default: the model's block size; of a Hugging Face model at most 1024)");
  line.option(
      "--stride", options.stride, "S",
      "from a window to the next (default: T). A smaller one gives tokens more of what stands before them; a window counts those "
      "that none before it had");
  line.option("--logits", options.logits, "FILE",
              "write logits [windows, T, vocabulary] in fp32 as safetensors; rows behind the text's end mean nothing");
  line.option(
      "--task", options.tasks, "FILE",
      "judge the model by a task in place of a text: choices (HellaSwag's, or context, choices, answer), answers (context, "
      "answer), documents, or lambada:FILE");
  line.daily({"--task", "--checkpoint", "--ranks", "--split", "--length", "--json", "--out"});
  line.note(
      "examples:\n"
      "  lockstep eval runs/first book.txt\n"
      "  lockstep eval runs/first data/fortunes/val.bin --length 64\n"
      "  lockstep eval models/qwen --task hellaswag_val.jsonl --task lambada:lambada_test.jsonl");
}

/// What the run of a checkpoint was told of its ids.
std::string ids_of_run(const Json& run) {
  const Json* value = &run;
  for (const char* key : {"config", "data", "ids"}) {
    value = value->is_object() ? value->find(key) : nullptr;
    if (value == nullptr) return std::string(data::any_ids);
  }
  return value->string();
}

/// Nothing keeps documents of a window from seeing each other here.
data::TokenText demand_unpacked(data::TokenText text) {
  if (!text.packing) return text;
  throw UserError(fmt::format("{}: its windows have whole documents, which would see each other", text.file.path()),
                  "evaluate a text that was prepared without --pack; a run evaluates packed ones as it trains "
                  "(train.eval_only=true)");
}

/// The tokens that the options mean.
data::TokenText open_text(const EvalOptions& options, const LoadedModel& loaded, Session& session, Log& log) {
  data::TokenRequest request{.vocabulary = loaded.inference->context().config.vocabulary, .ids = options.ids, .option = "--ids "};
  if (is_file(options)) {
    std::optional<data::TokenText> text;
    comm::together(session.world(), [&] {
      const bool plain = options.ids == data::any_ids && is_plain_text(options.data);
      text.emplace(plain ? tokenise(options.data, loaded, options.from.model) : data::open_tokens(options.data, request));
    });
    return demand_unpacked(std::move(*text));
  }
  std::string folder = options.data;
  if (folder.empty()) {
    const Json* known = loaded.manifest.run.is_object() ? loaded.manifest.run.find("data_folder") : nullptr;
    if (known == nullptr) throw UserError("the model does not say what it was trained on", "give it: lockstep eval MODEL DATA");
    folder = known->string();
    if (options.ids == data::any_ids) request.ids = ids_of_run(loaded.manifest.run);
  }
  const std::array<std::string, 1> name{options.split + ".bin"};
  data::TokenText text = demand_unpacked(data::open_tokens(io::Path(folder) / name[0], request));
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

/// How a text is read.
struct Windows {
  std::int64_t length = 0, stride = 0, count = 0;
};

/// By the options, for a model that reads `block` tokens at a time; of a short text no more than it has.
Windows windows_of(const EvalOptions& options, const data::TokenFile& file, std::int64_t block) {
  const std::int64_t length = options.length.value_or(block), stride = options.stride.value_or(length);
  std::vector<Problem> problems;
  if (length < 1 || length > block) {
    problems.push_back(
        {fmt::format("--length {}: the model reads 1 to {} tokens at a time", length, block), fmt::format("--length {}", block)});
  } else if (stride < 1 || stride > length) {
    problems.push_back({fmt::format("--stride {}: windows of {} tokens have one of 1 to {}, or tokens would be left out", stride,
                                    length, length),
                        fmt::format("--stride {}", std::max<std::int64_t>(1, length / 2))});
  }
  if (file.tokens() < 2) {
    problems.push_back({fmt::format("{} has one token: nothing in it is foretold", file.path()), "give a longer text"});
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  Windows windows{.length = std::min(length, file.tokens() - 1)};
  windows.stride = std::min(stride, windows.length);
  windows.count = data::whole_file_sampler(file, windows.length, windows.stride).windows();
  return windows;
}

/// The text's loss; rank 0 shows how far it is, and writes logits where they are asked for.
train::TextLoss evaluate(const EvalOptions& options, const LoadedModel& loaded, const data::TokenFile& file, const Windows& read,
                         Session& session) {
  train::TextLossRequest request{.length = read.length, .stride = read.stride, .logits = !options.logits.empty()};
  std::optional<LogitsFile> out;
  std::optional<ProgressBar> bar;
  if (session.lead()) {
    if (request.logits) out.emplace(options.logits, read.count, read.length, loaded.inference->context().config.vocabulary);
    bar.emplace(stderr, "eval", static_cast<double>(read.count));
    request.take_logits = [&out](const Tensor& logits) { out->add(logits); };
    request.have_windows = [&bar](std::int64_t done) { bar->update(static_cast<double>(done), ""); };
  }
  const train::TextLoss result = train::loss_of_text(*loaded.inference, file, request, session.runtime());
  if (bar) bar->finish();
  if (out) out->commit();
  return result;
}

Answer answer_of(const LoadedModel& loaded, const data::TokenText& text, const Windows& windows, const train::TextLoss& result) {
  const double perplexity = exponential(result.loss);  // infinite above 709 nats, which JSON has no number for
  std::optional<double> bits_per_byte;
  if (text.text_bytes > 0) {
    const double tokens_per_byte = static_cast<double>(text.targets) / static_cast<double>(text.text_bytes);
    bits_per_byte = result.loss / std::numbers::ln2 * tokens_per_byte;
  }
  Answer answer;
  answer.fact("loss", result.loss);
  if (std::isfinite(perplexity)) answer.facts({{"perplexity", perplexity}});
  if (bits_per_byte) answer.facts({{"bits_per_byte", *bits_per_byte}});
  answer.facts({{"tokens", result.tokens}, {"length", windows.length}, {"stride", windows.stride}});
  const auto say = [&](std::string_view what, const std::string& value) { answer.say(fmt::format("{:<15}{}\n", what, value)); };
  say("model", visible(loaded.folder));
  say("text", visible(text.file.path()));
  say("windows", fmt::format("{} of {} tokens, one every {}", format_count(windows.count), windows.length, windows.stride));
  say(text.file.masked() ? "taught tokens" : "tokens", format_count(result.tokens));
  say("loss", fmt::format("{:.6f} nats a token", result.loss));
  say("perplexity", fmt::format("{:.4f}", perplexity));
  if (bits_per_byte) say("bits per byte", fmt::format("{:.4f}", *bits_per_byte));
  return answer;
}

void evaluate_model(const EvalOptions& options, AnswerLine& line, Session& session) {
  Log log(stderr, session.lead() ? Level::warning : Level::critical);
  std::vector<data::Task> tasks;
  comm::together(session.world(), [&] {
    for (const std::string& task : options.tasks) tasks.push_back(data::read_task(task));
  });
  const LoadedModel loaded = load_model(options.from, options.length, session, log);
  if (!tasks.empty()) {
    const Answer answer = judge_by_tasks(loaded, tasks, options.stride.value_or(0), session, log);
    if (session.lead()) line.print(answer);
    return;
  }
  const data::TokenText text = open_text(options, loaded, session, log);
  data::demand_same_tokens(text.tokenizer.get(), text.file.path(), loaded.tokenizer.get(), options.from.model);
  data::demand_known_ids(text.file, loaded.inference->context().config.vocabulary);
  const Windows windows = windows_of(options, text.file, loaded.inference->context().config.block_size);
  const train::TextLoss result = evaluate(options, loaded, text.file, windows, session);
  if (session.lead()) line.print(answer_of(loaded, text, windows, result));
}

int run(const Arguments& arguments) {
  EvalOptions options;
  AnswerLine line("eval",
                  "Loss, perplexity and bits per byte of a trained model on a text. It is read window by window. Every token "
                  "but the first is foretold, and counts, once. Or what it makes of tasks.");
  declare(line, options);
  if (!line.read(arguments)) return 0;
  line.demand(!is_file(options) || options.split.empty(),
              fmt::format("--split {}: {} is no folder of prepared text, and has no parts", options.split, options.data),
              "leave --split out, or give the folder");
  line.demand(options.tasks.empty() || (options.data.empty() && options.split.empty() && options.logits.empty()),
              "--task: a task is a text of its own", "leave DATA, --split and --logits out");
  if (options.split.empty()) options.split = "val";
  options.from.read(line.problems());
  line.collect([&] { demand_output("--logits", options.logits, is_own_logits); });
  line.check();
  run_on_ranks(options.from.ranks(), [&](Session& session) { evaluate_model(options, line, session); });
  return 0;
}

}  // namespace

Command eval_command() { return {"eval", "loss and perplexity of a trained model", run}; }

}  // namespace lockstep::app
