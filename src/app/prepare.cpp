#include "data/prepare/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/cli/day.h"
#include "app/folder/folder_owner.h"
#include "app/settings/foreign/other_words.h"
#include "app/start/packed_text.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/shell.h"
#include "base/units.h"
#include "device/team.h"

namespace lockstep::app {
namespace {

data::TextFormat format_named(std::string_view name) {
  if (name == "auto") return data::TextFormat::automatic;
  return name == "text" ? data::TextFormat::text : data::TextFormat::jsonl;
}

struct Options {
  std::string input, tokenizer = "char", out, format = "auto";
  std::string chat_template, train_on = "auto", too_long = "refuse", date;
  std::int64_t threads = 0, shards = 0, length = 0, show = 0;
  bool binary = false, pack = false;
};

template <class T>
std::vector<std::string> words_list() {
  const std::vector<std::string_view> words = lockstep::words_of<T>();
  return {words.begin(), words.end()};
}

void ask_conversations(CommandLine& line, Options& options) {
  line.option(
      "--chat-template", options.chat_template, "TEMPLATE",
      "how conversations are written: a template's file, a model's folder, or one of chatml, llama3, zephyr; else that of "
      "the tokenizer's folder");
  line.choice("--train-on", options.train_on, words_list<data::TrainOn>(),
              "what of a document is taught; auto: the completion where the form has one, else the assistant's turns");
  line.option("--length", options.length, "N", "the most tokens of a conversation; 0: any number");
  line.choice("--too-long", options.too_long, words_list<data::TooLong>(),
              "what becomes of a longer conversation; cut: its last turns are left out");
  line.flag(
      "--pack", options.pack,
      "fill windows of --length tokens with whole documents of JSONL, as many as fit (best-fit decreasing). They do not see each "
      "other in training");
  line.option("--date", options.date, "YYYY-MM-DD", "the day that a template writes as today's; else it is today");
  line.option("--show", options.show, "N", "print the first N documents with what is taught, ids and ends");
}

void add_notes(CommandLine& line) {
  line.note(
      "A document of JSONL ends with the tokenizer's end-of-text token, or a line feed where it has none. With prompts "
      "or conversations, train.mask.bin and val.mask.bin say which tokens are taught.");
  line.note("Memory stays the same for a text of any size. Nothing is changed in FOLDER until all of the text is tokenised.");
  line.note(
      "train.bin and val.bin hold the ids and nothing else, as nanoGPT's do: little-endian uint16, or uint32 for a vocabulary "
      "above 65,536.");
  line.note(
      "examples:\n"
      "  lockstep prepare book.txt --out data/book\n"
      "  lockstep prepare articles/ --tokenizer byte --out data/articles\n"
      "  lockstep prepare articles/ --tokenizer hf:llama3/tokenizer.json --out data/articles\n"
      "  lockstep prepare articles/ --tokenizer bpe:32768 --out data/articles\n"
      "  lockstep prepare chats.jsonl --tokenizer hf:models/qwen --length 2048 --show 3 --out data/chats\n"
      "  lockstep prepare chats.jsonl --tokenizer hf:models/qwen --length 2048 --too-long drop --pack --out data/chats\n"
      "  lockstep prepare pairs.jsonl --tokenizer hf:models/qwen --length 1024 --out data/pairs\n"
      "  lockstep prepare alpaca.jsonl.gz --tokenizer hf:models/base --chat-template chatml --out data/alpaca\n"
      "  lockstep prepare dump.jsonl.zst --out data/dump\n"
      "  xzcat dump.xz | lockstep prepare - --out data/dump\n"
      "  lockstep train data/book");
}

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line("prepare",
                   "Turn text into the token files that training reads. These are train.bin (the first 90 % of the characters), "
                   "val.bin (the rest) and tokens.json, which says how to turn tokens into text again.");
  line.positional(
      "INPUT", options.input,
      "a text file; JSONL (.jsonl) or a list in JSON, a document a row; a folder; or -, standard input. A document is {\"text\": "
      "...}, or {\"prompt\": ..., \"completion\": ...} of which only the completion is taught; or a conversation: "
      "messages, ShareGPT or Alpaca. A pair is {\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}: "
      "train.objective=dpo learns which answer is better. A folder's files and those in the folders below are read "
      "in the order of "
      "their paths");
  line.option("--tokenizer", options.tokenizer, "NAME",
              "char, byte, gpt2:FOLDER, hf:FILE or bpe:SIZE. 'char': a token is a character, the vocabulary comes from the text, "
              "which must be UTF-8. 'byte': a token is one of 256 bytes. 'gpt2': GPT-2's BPE, from the folder of encoder.json "
              "and vocab.bpe. 'hf': the BPE or Unigram of a tokenizer.json, of its folder, or of a GGUF file (GPT-2, Llama, "
              "Qwen, Gemma). 'bpe': "
              "a BPE of so many tokens, trained on the text and kept as tokenizer.json");
  line.choice("--format", options.format, {"auto", "text", "jsonl"},
              "what INPUT holds; auto: rows where names end in .jsonl, or a .json begins with them; else text");
  line.flag("--binary", options.binary,
            "take the bytes of any file as they are. Otherwise gzip and zstd are unpacked, and what is no text is refused, or "
            "skipped in a folder");
  line.option("--out", options.out, "FOLDER", "where the files go; made when it is not there");
  line.option("--shards", options.shards, "N",
              "also cut the training text into a file a rank, for data.shards=precut; 0: do not");
  line.option("--threads", options.threads, "N", "threads that tokenise; 0: every core");
  ask_conversations(line, options);
  line.undeclared(other_words(WordsOf::prepare));
  add_notes(line);
  return line.parse(arguments);
}

void check(const Options& options) {
  const std::string place = "name the folder for the token files: --out data/NAME";
  std::vector<Problem> problems = options.out.empty()
                                      ? std::vector<Problem>{{"--out is missing", place}}
                                      : check_place(options.out, FolderOwner::data, "--out " + options.out, place);
  if (options.threads < 0 || options.threads > Team::most_threads) {
    problems.push_back(
        {fmt::format("--threads {}: must be from 0 to {}", options.threads, Team::most_threads), "--threads 0 takes every core"});
  }
  if (options.shards < 0 || options.shards > 99999) {
    problems.push_back(
        {fmt::format("--shards {}: must be from 0 to 99999", options.shards), "--shards 4 cuts the text for 4 ranks"});
  }
  for (const auto& [option, value] : {std::pair("--length", options.length), {"--show", options.show}}) {
    if (value < 0) problems.push_back({fmt::format("{} {}: must not be negative", option, value), "leave it out"});
  }
  if (options.too_long != "refuse" && options.length == 0) {
    problems.push_back({fmt::format("--too-long {}: nothing says what is too long", options.too_long),
                        "give the most tokens of a conversation: --length 2048"});
  }
  if (options.pack && options.length == 0) {
    problems.push_back({"--pack: nothing says how long windows are",
                        "give the tokens of a window, which training has as model.block_size: --length 2048"});
  }
  if (options.pack && options.shards > 0) {
    problems.push_back({fmt::format("--shards {}: packed windows are not cut into shards", options.shards),
                        "leave it out: all ranks draw from one file (data.shards=global)"});
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

int run(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  check(options);
  Log log;
  const data::PrepareResult result = data::prepare({.input = options.input,
                                                    .tokenizer = options.tokenizer,
                                                    .format = format_named(options.format),
                                                    .binary = options.binary,
                                                    .out = options.out,
                                                    .chats = {.chat_template = options.chat_template,
                                                              .train_on = choice_from<data::TrainOn>(options.train_on).value(),
                                                              .length = options.length,
                                                              .packed = options.pack,
                                                              .too_long = choice_from<data::TooLong>(options.too_long).value(),
                                                              .now = day_of(options.date)},
                                                    .show = options.show,
                                                    .pack = options.pack,
                                                    .shards = static_cast<int>(options.shards),
                                                    .threads = narrow<std::size_t>(options.threads)},
                                                   log);
  std::vector<std::string> next{"train", options.out};
  if (result.description.packing) std::ranges::move(settings_for(*result.description.packing), std::back_inserter(next));
  fmt::print("prepared {} in {} ({:.0f} MB/s); next: {}\n", format_bytes(result.bytes), format_seconds(result.seconds),
             static_cast<double>(result.bytes) * 1e-6 / result.seconds, own_command(next));
  return 0;
}

}  // namespace

Command prepare_command() { return {"prepare", "turn text into token files", run}; }

}  // namespace lockstep::app
