#include "data/prepare/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text/paint.h"
#include "base/text/utf8.h"
#include "base/text/visible.h"
#include "base/timer.h"
#include "base/units.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"
#include "data/bpe/training.h"
#include "data/prepare/byte_progress.h"
#include "data/prepare/encoded_part.h"
#include "data/prepare/line_reader.h"
#include "data/prepare/ordered_work.h"
#include "data/prepare/packing.h"
#include "data/prepare/shown_document.h"
#include "data/prepare/staging.h"
#include "data/prepare/text_input.h"
#include "data/prepare/token_writer.h"
#include "data/shards.h"
#include "data/text/documents.h"
#include "data/text/scan.h"
#include "data/text/source.h"
#include "data/tokenizer.h"
#include "data/tokenizer_choice.h"
#include "io/sha256.h"

namespace lockstep::data {
namespace {

constexpr double train_fraction = 0.9;
constexpr std::size_t most_taught = 1024;  // pieces that a BPE is trained on

// The memory of one piece in flight.
struct Slot {
  std::string buffer;
  TextPieces::Piece piece;
  TextScan scan;
  DocumentLines lines;   // of JSONL
  bool prompts = false;  // some of what came through it was a prompt
  bpe::WordCounts words;
  EncodedPart train, val;
  std::string shown;  // of its documents
};

// What the first pass learns of a piece, or of all those before it.
struct Contents {
  std::int64_t characters = 0;
  std::int64_t documents = 0;
  std::uint64_t checksum = 0;  // of a piece's bytes
  ChatCounts chats = {};
};

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const TextSource& source, TokenizerChoice choice,
              std::unique_ptr<Tokenizer> tokenizer, Staging& staging)
      : options_(options),
        source_(source),
        staging_(staging),
        choice_(std::move(choice)),
        by_characters_(choice_.kind == TokenizerChoice::Kind::characters),
        by_documents_(source.format == TextFormat::jsonl),
        tokenizer_(std::move(tokenizer)),
        pieces_(source,
                by_documents_    ? Cut::line
                : by_characters_ ? Cut::character
                                 : Cut::word,
                TextPieces::piece_bytes, tokenizer_.get()),
        reader_(by_documents_ ? std::optional<LineReader>(std::in_place, options, choice_, tokenizer_.get(), pieces_)
                              : std::nullopt),
        threads_(options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency())),
        slots_(2 * threads_) {}

  TokenDescription run() {
    demand_space();
    TokenWriter train(staging_.path() / "train.bin"), val(staging_.path() / "val.bin");
    scan();
    options_.pack || pairs() ? tokenise_packed(train, val) : tokenise(train, val);
    train.sync();
    val.sync();
    const auto shards = cut_shards(train.open(format_), options_.shards, staging_.path());
    TokenDescription description{.tokenizer = tokenizer_->describe(),
                                 .format = format_,
                                 .characters = all_.characters,
                                 .documents = all_.documents,
                                 .files = {train.commit(), val.commit()},
                                 .text = TextFacts{static_cast<std::int64_t>(source_.bytes()), text_hash_},
                                 .packing = packing_,
                                 .chats = reader_ ? reader_->chats(*tokenizer_) : std::nullopt};
    for (const auto& shard : shards) description.files.push_back(shard->commit());
    staging_.commit(description);
    return description;
  }
  const std::string& rows() const { return rows_; }
  const std::vector<std::string>& marked() const { return marked_; }
  // Whether conversations have what ends documents inside.
  bool ends_inside() const {
    return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.train.ends_inside() || slot.val.ends_inside(); });
  }

 private:
  void tokenise_packed(TokenWriter& train, TokenWriter& val) {
    packer_.emplace(staging_.path(), format_, options_.chats.length, pairs());
    tokenise(packer_->train(), packer_->val());
    packing_ = packer_->pack(train, val, options_.facts);
  }

  // First pass: what is in every piece and in the text, and the vocabulary.
  void scan() {
    contents_.resize(pieces_.count());
    ByteProgress progress(options_.progress, "scan", source_.bytes());
    BadLines bad;
    io::Sha256 hash;
    run_ordered(
        pieces_.count(), threads_, slots_.size(),
        [&](std::size_t slot, std::size_t item) { contents_[item] = scan_piece(slots_[slot], item); },
        [&](std::size_t slot, std::size_t) {
          bad.add(*slots_[slot].piece.file, slots_[slot].lines);
          hash.update(std::as_bytes(std::span(slots_[slot].piece.text)));
          note_mark(slots_[slot].piece);
          progress.add(slots_[slot].piece.text.size());
        });
    bad.check();
    progress.finish();
    text_hash_ = hash.hex();
    for (const Contents& piece : contents_) {
      all_.characters += piece.characters;
      all_.documents += piece.documents;
      all_.chats += piece.chats;
    }
    if (by_documents_) slots_[0].scan.add("\n");  // which ends them
    for (std::size_t i = 1; i < slots_.size(); ++i) slots_[0].scan.merge(slots_[i].scan);
    check_text();
    demand_space();
    const std::string vocabulary = slots_[0].scan.characters();
    if (by_characters_) tokenizer_ = make_char_tokenizer(vocabulary);
    if (trains()) tokenizer_ = trained();
    format_ = {.token_bytes = TokenFormat::bytes_for(tokenizer_->vocabulary()), .vocabulary = tokenizer_->vocabulary()};
    if (reader_) {
      rows_ = fmt::format("found: {}\n{}documents: {}\n", reader_->found(has_prompts()), reader_->told(all_.chats),
                          format_count(all_.documents));
    }
    fmt::print(options_.facts, "{}length of dataset in characters: {}\nall the unique characters: {}\nvocab size: {}\n", rows_,
               format_count(all_.characters),
               takes_characters() ? visible(vocabulary, LineBreaks::kept) : "(every byte is a token)",
               format_count(format_.vocabulary));
  }

  // A byte order mark is part of a plain text; readers of JSONL pass over it.
  void note_mark(const TextPieces::Piece& piece) {
    if (!by_documents_ && piece.begin == 0 && piece.text.starts_with(byte_order_mark)) marked_.push_back(piece.file->name);
  }

  void demand_space() const {
    if (!by_documents_) demand_space(least_token_bytes(choice_.kind, source_.bytes(), all_.characters));
  }
  void demand_space(std::uint64_t tokens) const {
    io::demand_space(options_.out, tokens, fmt::format("the prepared text of {}", options_.input), options_.free_bytes);
  }

  Contents scan_piece(Slot& slot, std::size_t item) const {
    slot.piece = pieces_.read(item, slot.buffer);
    Contents contents{.checksum = checksum_of(slot.piece.text)};
    if (!by_documents_) {
      if (!options_.binary) refuse_zeros(slot.piece);
      contents.characters = scan_text(slot, slot.piece.text, teaches(item));
      return contents;
    }
    read_lines(slot);
    contents.chats = slot.lines.counts;
    for (const Document& document : slot.lines.documents) {
      for (const std::string* text : {&document.prompt, &document.text}) {
        contents.characters += scan_text(slot, *text, teaches(item));
      }
      slot.prompts = slot.prompts || !document.prompt.empty();
      ++contents.documents;
    }
    return contents;
  }

  void read_lines(Slot& slot) const {
    read_documents(slot.piece.text, [&](auto&... given) { reader_->make(given...); }, slot.lines);
  }

  // Returns the number of characters.
  std::int64_t scan_text(Slot& slot, std::string_view text, bool teaches) const {
    if (trains() && teaches) slot.words.add(words_, text);
    if (!takes_characters()) return count_characters(text);
    const TextScan::Result result = slot.scan.add(text);
    if (result.invalid_at) {
      const std::size_t at = *result.invalid_at;
      throw UserError(fmt::format("{}, byte {} (0x{:02x}): not valid UTF-8", slot.piece.file->name, slot.piece.begin + at,
                                  static_cast<unsigned char>(text[at])),
                      "convert the text to UTF-8 (iconv does it), or prepare it with --tokenizer byte");
    }
    return result.characters;
  }

  bool takes_characters() const { return by_characters_ || (tokenizer_ && tokenizer_->name() == "char"); }
  bool trains() const { return choice_.kind == TokenizerChoice::Kind::trained; }
  bool has_prompts() const { return std::ranges::any_of(slots_, &Slot::prompts); }
  bool pairs() const { return reader_ && reader_->pairs(); }
  bool masks() const { return reader_ && reader_->masks(has_prompts()); }

  // Whether a tokenizer learns from the piece. A long text has some, spread evenly: all its words may not fit into memory.
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
    return bpe::make_bpe_tokenizer(std::move(model), std::move(json), bpe::AddedTokens::found);
  }

  void check_text() const {
    if (by_documents_ && all_.documents < (pairs() ? 4 : 2)) {
      throw UserError(fmt::format("{} has {} document{} that {} not empty", options_.input, all_.documents,
                                  all_.documents == 1 ? "" : "s", all_.documents == 1 ? "is" : "are"),
                      all_.chats.dropped == 0 ? "give at least two, or two pairs: the last is for validation"
                                              : "take a larger --length: the others are too long for it");
    }
    constexpr const char* remedy = "give a text with at least two different characters";
    if (all_.characters == 0) throw UserError(fmt::format("the text {} is empty", options_.input), remedy);
    if (all_.characters == 1) throw UserError(fmt::format("the text {} is one character long", options_.input), remedy);
    if (by_characters_ && slots_[0].scan.distinct() == 1) {
      throw UserError(fmt::format("the text {} repeats one character", options_.input), remedy);
    }
  }

  // Second pass.
  void tokenise(TokenWriter& train, TokenWriter& val) {
    for (TokenWriter* writer : {&train, &val}) {
      if (masks()) writer->begin_mask();
    }
    const auto for_training = static_cast<std::int64_t>(static_cast<double>(all_.characters) * train_fraction);
    std::vector<Contents> before(pieces_.count());
    for (std::size_t i = 1; i < before.size(); ++i) {
      before[i].characters = before[i - 1].characters + contents_[i - 1].characters;
      before[i].documents = before[i - 1].documents + contents_[i - 1].documents;
    }
    ByteProgress progress(options_.progress, "tokenise", source_.bytes());
    std::uint64_t done = 0;
    std::string shown;
    run_ordered(
        pieces_.count(), threads_, slots_.size(),
        [&](std::size_t slot, std::size_t item) { encode_piece(slots_[slot], item, before[item], for_training); },
        [&](std::size_t w, std::size_t item) {
          slots_[w].train.append_to(train);
          slots_[w].val.append_to(val);
          if (packer_) packer_->note(slots_[w].train, slots_[w].val);
          shown += slots_[w].shown;
          progress.add(slots_[w].piece.text.size());
          done += slots_[w].piece.text.size();
          // What the rest will take, by what the first part took.
          constexpr std::size_t some = 64;
          if (item % some != some - 1) return;
          const auto bytes = static_cast<double>((train.tokens() + val.tokens()) * format_.token_bytes);
          const auto rest = static_cast<double>(source_.bytes() - done);
          demand_space(static_cast<std::uint64_t>(bytes / static_cast<double>(done) * rest));
        });
    progress.finish();
    fmt::print(options_.facts, "{}", shown);
    for (const auto& [name, writer] : {std::pair("train", &train), std::pair("val", &val)}) {
      fmt::print(options_.facts, "{} has {} tokens\n", name, format_count(writer->tokens()));
      if (!masks()) continue;
      fmt::print(options_.facts, "of them {} are taught\n", format_count(writer->targets()));
      if (writer->targets() > 0) continue;
      throw UserError(fmt::format("nothing is taught in {} of {}", name, options_.input),
                      "give it answers of the assistant, and a template that marks them; --show 3 prints what is taught");
    }
  }

  void encode_piece(Slot& slot, std::size_t item, const Contents& before, std::int64_t for_training) const {
    slot.piece = pieces_.read(item, slot.buffer);
    slot.train.clear();
    slot.val.clear();
    slot.shown.clear();
    bool same = checksum_of(slot.piece.text) == contents_[item].checksum;
    if (same && by_documents_) same = encode_documents(slot, item, before, for_training);
    if (same && !by_documents_) encode_text(slot, item, for_training - before.characters);
    const std::string unknown = slot.train.unknown() + slot.val.unknown();
    if (same && !by_characters_ && !unknown.empty()) {
      throw UserError(fmt::format("{} has characters that the tokenizer does not have: {}", slot.piece.file->name, unknown),
                      "take a tokenizer that has them: --tokenizer char, byte or the BPE of a model");
    }
    if (!same || !unknown.empty()) {
      throw UserError(fmt::format("{} changed while it was read", slot.piece.file->name),
                      "prepare it when no program writes to it");
    }
    slot.train.pack(format_);
    slot.val.pack(format_);
  }

  void encode_text(Slot& slot, std::size_t item, std::int64_t for_training) const {
    const std::string_view text = slot.piece.text;
    const std::size_t cut = for_training >= contents_[item].characters
                                ? text.size()
                                : character_offset(text, std::max<std::int64_t>(for_training, 0));
    const bool goes_on = slot.piece.begin > 0;
    slot.train.add_text(*tokenizer_, text.substr(0, cut), goes_on);
    slot.val.add_text(*tokenizer_, text.substr(cut), goes_on && for_training < 0);
  }

  // Returns whether the text is the one that was scanned.
  bool encode_documents(Slot& slot, std::size_t item, Contents at, std::int64_t for_training) const {
    read_lines(slot);
    const Contents end{at.characters + contents_[item].characters, at.documents + contents_[item].documents};
    for (bool trains = false; const Document& document : slot.lines.documents) {
      if (!pairs() || at.documents % 2 == 0)
        trains = at.characters < for_training && at.documents + (pairs() ? 2 : 1) < all_.documents;
      EncodedPart& part = trains ? slot.train : slot.val;
      const std::size_t begin = part.ids().size();
      part.add(*tokenizer_, document, reader_->teaches_prompts());
      if (at.documents < options_.show) {
        const ShownDocument shown{at.documents + 1, trains, part.ids().subspan(begin), part.mask().subspan(begin)};
        slot.shown += show(shown, *tokenizer_, Paint(options_.facts));
      }
      at.characters += count_characters(document.prompt) + count_characters(document.text);
      ++at.documents;
    }
    return slot.lines.bad.empty() && at.characters == end.characters && at.documents == end.documents;
  }

  const PrepareOptions& options_;
  const TextSource& source_;
  Staging& staging_;
  TokenizerChoice choice_;
  bpe::Words words_{bpe::Pattern::gpt2};  // of a BPE that is trained
  bool by_characters_;                    // which come from the text and must be valid
  bool by_documents_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TextPieces pieces_;
  std::optional<LineReader> reader_;  // of documents
  std::size_t threads_;
  std::vector<Slot> slots_;
  std::vector<Contents> contents_;
  std::string text_hash_;            // of each piece
  std::string rows_;                 // what they are, for people
  std::vector<std::string> marked_;  // files that begin with a byte order mark
  Contents all_;
  TokenFormat format_;
  std::optional<Packer> packer_;  // where documents are packed
  std::optional<Packing> packing_;
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options, Log& log) {
  const double start = now_seconds();
  const TokenizerChoice choice = options.choice ? *options.choice : tokenizer_choice(options.tokenizer);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(choice);
  const TextRules rules{
      .format = options.format, .utf8 = choice.kind == TokenizerChoice::Kind::characters, .binary = options.binary};
  TextSource source;
  if (options.input != "-") source = find_text(options, rules, log);
  std::optional<FolderLock> lock;
  if (options.lock == nullptr) lock.emplace(options.out, 0, log);
  Staging staging(options.lock != nullptr ? *options.lock : *lock);
  Spools spools(options, staging.path());
  if (source.files.empty()) source = spools.stream(rules);
  spools.unpack(source);
  if (source.format != TextFormat::jsonl) refuse_options_of_chats(options, false);
  Preparation preparation(options, source, choice, std::move(tokenizer), staging);
  PrepareResult result{.description = preparation.run(), .rows = preparation.rows(), .bytes = source.bytes()};
  for (const std::string& name : preparation.marked())
    log.warning(fmt::format("{} begins with a byte order mark (U+FEFF), which is a character of the text", name));
  if (preparation.ends_inside() && !result.description.packing)
    log.warning("conversations have the token inside that ends documents; data.documents=true would part them there");
  if (const std::int64_t found = result.description.format.vocabulary; found < choice.vocabulary) {
    log.warning(fmt::format("the vocabulary has {} tokens, not {}: every word of the text is a token already",
                            format_count(found), format_count(choice.vocabulary)));
  }
  result.seconds = now_seconds() - start;
  return result;
}

}  // namespace lockstep::data
