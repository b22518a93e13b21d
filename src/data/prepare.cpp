#include "data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/terminal.h"
#include "base/timer.h"
#include "base/units.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"
#include "data/bpe/training.h"
#include "data/ordered_work.h"
#include "data/shards.h"
#include "data/spool.h"
#include "data/text_scan.h"
#include "data/text_source.h"
#include "data/token_writer.h"
#include "data/tokenizer.h"
#include "data/tokenizer_choice.h"

namespace lockstep::data {
namespace {

constexpr double train_fraction = 0.9;
constexpr std::size_t most_taught = 1024;  // pieces that a BPE is trained on

// Bytes done, drawn as a bar with MB/s.
class Progress {
 public:
  Progress(std::FILE* out, const std::string& label, std::uint64_t total)
      : bar_(out, label, static_cast<double>(total)), started_(now_seconds()) {}
  void add(std::size_t bytes) {
    done_ += static_cast<double>(bytes);
    bar_.update(done_, fmt::format("{:.0f} MB/s", done_ * 1e-6 / std::max(now_seconds() - started_, 1e-3)));
  }
  void finish() { bar_.finish(); }

 private:
  ProgressBar bar_;
  double started_, done_ = 0;
};

// The vocabulary for people: control characters but line breaks and tabs would spoil the terminal.
std::string printable(const std::string& characters) {
  std::string text;
  for (const char c : characters) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    text += control ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text;
}

// The memory of one piece in flight.
struct Slot {
  std::string buffer;
  TextPieces::Piece piece;
  TextScan scan;
  bpe::WordCounts words;
  std::vector<std::int32_t> ids;
  struct Part {
    std::vector<std::byte> packed;
    std::int64_t tokens = 0;
    std::size_t text_bytes = 0;
  } train, val;
};

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const TextSource& source, TokenizerChoice choice,
              std::unique_ptr<Tokenizer> tokenizer)
      : options_(options),
        source_(source),
        choice_(std::move(choice)),
        by_characters_(choice_.kind == TokenizerChoice::Kind::characters),
        tokenizer_(std::move(tokenizer)),
        pieces_(source, by_characters_ ? Cut::character : Cut::word),
        threads_(options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency())),
        slots_(2 * threads_) {}

  TokenDescription run() {
    TokenWriter train(options_.out / "train.bin"), val(options_.out / "val.bin");  // first: says early what cannot be written
    scan();
    tokenise(train, val);
    train.sync();
    val.sync();
    std::vector<std::unique_ptr<TokenWriter>> shards;
    if (options_.shards > 0) shards = cut_shards(TokenFile(train.path().string(), format_), options_.shards, options_.out);
    TokenDescription description{.tokenizer = tokenizer_->describe(),
                                 .format = format_,
                                 .characters = characters_,
                                 .files = {train.commit(), val.commit()}};
    for (const auto& shard : shards) description.files.push_back(shard->commit());
    write_description(options_.out, description);
    return description;
  }

 private:
  // First pass: characters of every piece and of the text, and the vocabulary.
  void scan() {
    characters_of_.resize(pieces_.count());
    Progress progress(options_.progress, "scan", source_.bytes());
    run_ordered(
        pieces_.count(), threads_, slots_.size(),
        [&](std::size_t slot, std::size_t item) { characters_of_[item] = scan_piece(slots_[slot], item); },
        [&](std::size_t slot, std::size_t) { progress.add(slots_[slot].piece.text.size()); });
    progress.finish();
    characters_ = std::accumulate(characters_of_.begin(), characters_of_.end(), std::int64_t{0});
    for (std::size_t i = 1; i < slots_.size(); ++i) slots_[0].scan.merge(slots_[i].scan);
    check_text();
    const std::string vocabulary = slots_[0].scan.characters();
    if (by_characters_) tokenizer_ = make_char_tokenizer(vocabulary);
    if (trains()) tokenizer_ = trained();
    format_ = {.token_bytes = TokenFormat::bytes_for(tokenizer_->vocabulary()), .vocabulary = tokenizer_->vocabulary()};
    fmt::print(options_.facts, "length of dataset in characters: {}\n", format_count(characters_));
    fmt::print(options_.facts, "all the unique characters: {}\n",
               by_characters_ ? printable(vocabulary) : "(every byte is a token)");
    fmt::print(options_.facts, "vocab size: {}\n", format_count(format_.vocabulary));
  }

  std::int64_t scan_piece(Slot& slot, std::size_t item) const {
    slot.piece = pieces_.read(item, slot.buffer);
    if (trains() && teaches(item)) slot.words.add(words_, slot.piece.text);
    if (!by_characters_) return count_characters(slot.piece.text);
    const TextScan::Result result = slot.scan.add(slot.piece.text);
    if (result.invalid_at) {
      const std::size_t at = *result.invalid_at;
      throw UserError(fmt::format("{}, byte {} (0x{:02x}): not valid UTF-8", slot.piece.file->name, slot.piece.begin + at,
                                  static_cast<unsigned char>(slot.piece.text[at])),
                      "convert the text to UTF-8 (iconv does it), or prepare it with --tokenizer byte");
    }
    return result.characters;
  }

  bool trains() const { return choice_.kind == TokenizerChoice::Kind::trained; }

  // Of a long text, pieces that are spread evenly: the words of all of it might not fit into memory.
  bool teaches(std::size_t item) const {
    const std::size_t count = pieces_.count();
    return count <= most_taught || item * most_taught / count != (item + 1) * most_taught / count;
  }

  std::unique_ptr<Tokenizer> trained() {
    bpe::WordCounts words;
    for (Slot& slot : slots_) words.add(std::move(slot.words));
    ProgressBar bar(options_.progress, "train", static_cast<double>(choice_.vocabulary));
    const auto progress = [&](std::int64_t tokens) {
      bar.update(static_cast<double>(tokens), fmt::format("{} tokens", format_count(tokens)));
    };
    bpe::Model model = bpe::train_bpe(words, words_.pattern(), choice_.vocabulary, progress);
    bar.finish();
    std::string json = bpe::to_json(model).dump();
    return bpe::make_bpe_tokenizer(std::move(model), std::move(json), bpe::AddedTokens::ordinary);
  }

  void check_text() const {
    constexpr const char* remedy = "give a text with at least two different characters";
    if (characters_ == 0) throw UserError(fmt::format("the text {} is empty", options_.input), remedy);
    if (characters_ == 1) throw UserError(fmt::format("the text {} is one character long", options_.input), remedy);
    if (by_characters_ && slots_[0].scan.distinct() == 1) {
      throw UserError(fmt::format("the text {} repeats one character", options_.input), remedy);
    }
  }

  // Second pass.
  void tokenise(TokenWriter& train, TokenWriter& val) {
    auto left = static_cast<std::int64_t>(static_cast<double>(characters_) * train_fraction);
    std::vector<std::int64_t> for_training(pieces_.count());  // characters of each piece
    for (std::size_t i = 0; i < for_training.size(); ++i) left -= for_training[i] = std::min(left, characters_of_[i]);
    Progress progress(options_.progress, "tokenise", source_.bytes());
    run_ordered(
        pieces_.count(), threads_, slots_.size(),
        [&](std::size_t slot, std::size_t item) { encode_piece(slots_[slot], item, for_training[item]); },
        [&](std::size_t w, std::size_t) {
          const Slot& slot = slots_[w];
          train.append(slot.train.packed, slot.train.tokens, slot.train.text_bytes);
          val.append(slot.val.packed, slot.val.tokens, slot.val.text_bytes);
          progress.add(slot.piece.text.size());
        });
    progress.finish();
    fmt::print(options_.facts, "train has {} tokens\n", format_count(train.tokens()));
    fmt::print(options_.facts, "val has {} tokens\n", format_count(val.tokens()));
  }

  void encode_piece(Slot& slot, std::size_t item, std::int64_t for_training) const {
    slot.piece = pieces_.read(item, slot.buffer);
    const std::string_view text = slot.piece.text;
    const std::size_t cut = for_training == characters_of_[item] ? text.size() : character_offset(text, for_training);
    encode_part(slot, slot.train, text.substr(0, cut));
    encode_part(slot, slot.val, text.substr(cut));
  }

  void encode_part(Slot& slot, Slot::Part& part, std::string_view text) const {
    if (const std::size_t room = tokenizer_->room(text.size()); slot.ids.size() < room) slot.ids.resize(room);
    std::string unknown;
    const std::size_t count = tokenizer_->encode(text, slot.ids, unknown);
    if (!unknown.empty()) {
      throw UserError(fmt::format("{} changed while it was read", slot.piece.file->name), "prepare it when nobody writes to it");
    }
    pack(std::span(slot.ids).first(count), format_, part.packed);
    part.tokens = static_cast<std::int64_t>(count);
    part.text_bytes = text.size();
  }

  const PrepareOptions& options_;
  const TextSource& source_;
  TokenizerChoice choice_;
  bpe::Words words_{bpe::Pattern::gpt2};  // of a BPE that is trained
  bool by_characters_;                    // which come from the text and must be valid
  std::unique_ptr<Tokenizer> tokenizer_;
  TextPieces pieces_;
  std::size_t threads_;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> characters_of_;  // each piece
  std::int64_t characters_ = 0;
  TokenFormat format_;
};

TextSource find_text(const PrepareOptions& options, Log& log) {
  if (!std::filesystem::exists(options.input)) {
    throw UserError(fmt::format("there is no text {}", options.input), "name a file, a folder, or - for standard input");
  }
  if (!std::filesystem::is_directory(options.input)) return file_source(options.input, options.input);
  TextSource source = folder_source(options.input, options.tokenizer == "char", options.out);
  log_skipped(source, log);
  return source;
}

}  // namespace

PrepareResult prepare(const PrepareOptions& options, Log& log) {
  const double start = now_seconds();
  const TokenizerChoice choice = tokenizer_choice(options.tokenizer);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(choice);
  std::optional<Spool> spool;
  TextSource source;
  if (options.input == "-") {
    io::make_folders(options.out);
    spool.emplace(options.standard_input, options.out);
    source = file_source(spool->path(), "standard input");
  } else {
    source = find_text(options, log);
    io::make_folders(options.out);
  }
  PrepareResult result;
  result.description = Preparation(options, source, choice, std::move(tokenizer)).run();
  if (const std::int64_t found = result.description.format.vocabulary; found < choice.vocabulary) {
    log.warning(fmt::format("the vocabulary has {} tokens, not {}: every word of the text is a token already",
                            format_count(found), format_count(choice.vocabulary)));
  }
  result.bytes = source.bytes();
  result.seconds = now_seconds() - start;
  return result;
}

}  // namespace lockstep::data
