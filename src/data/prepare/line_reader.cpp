#include "data/prepare/line_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/text/visible.h"
#include "base/units.h"
#include "data/chat/answer_pair.h"
#include "data/prepare/encoded_part.h"
#include "data/text/scan.h"

namespace lockstep::data {
namespace {

// The first line that is an object; or none.
std::optional<Json> first_row(const TextPieces& pieces) {
  std::string buffer;
  std::optional<Json> found;
  DocumentLines lines;
  const auto look = [&](const Json& object, ChatCounts&, std::vector<Document>&) {
    if (!found) found = object;
  };
  for (std::size_t i = 0; i < pieces.count() && !found; ++i) read_documents(pieces.read(i, buffer).text, look, lines);
  return found;
}

void refuse_options_of_pairs(const PrepareOptions& options) {
  const auto refuse_where = [&](bool given, const std::string& message, const char* remedy) {
    if (given) throw UserError(fmt::format("{}: {}", options.input, message), remedy);
  };
  const ChatRules& rules = options.chats;
  refuse_where(rules.length == 0, "it has pairs, and nothing says how long their windows are",
               "give the most tokens of a conversation, which training has as model.block_size: --length 1024");
  refuse_where(rules.train_on != TrainOn::automatic && rules.train_on != TrainOn::completion,
               fmt::format("--train-on {}: pairs are compared by their answers", lockstep::word_of(rules.train_on)),
               "leave --train-on out");
  refuse_where(rules.too_long == TooLong::cut, "--too-long cut: an answer that is cut is not the one that was judged",
               "leave such pairs out (--too-long drop)");
  refuse_where(options.shards > 0, fmt::format("--shards {}: pairs are not cut into shards", options.shards),
               "leave it out: all ranks draw from one file (data.shards=global)");
}

// The texts of the model whose tokenizer it is: a published one's lie beside it.
ModelTexts model_texts(const TokenizerChoice& choice) {
  if (!choice.described.is_null() || choice.path.empty()) return choice.texts;
  return texts_of(place_of_texts(choice.path));
}

// Documents end with what tokenizer_config.json calls eos_token, as trl has it (trainer/sft_trainer.py, _tokenize). Templates
// write it inside conversations, so those end with what vocabularies call the end of a text, where there is one.
void take_end(Tokenizer& tokenizer, const ModelTexts& model, bool texts) {
  if (!texts && tokenizer.end_of_text()) return;
  for (const auto& [name, text] : tokens_of(config_of(model))) {
    const std::optional<std::int32_t> token = name == "eos_token" ? token_of(tokenizer, text.string()) : std::nullopt;
    if (token && tokenizer.bytes(*token) == text.string()) tokenizer.end_documents_with(*token);
  }
}

std::string_view kind_of_answers(RowForm form) {
  if (form == RowForm::plain) return "texts";
  return form == RowForm::alpaca ? "texts behind an instruction" : "messages";
}

constexpr std::array<std::pair<TrainOn, std::string_view>, 4> taught_words = {
    {{TrainOn::all, "everything"},
     {TrainOn::assistant, "the assistant's turns"},
     {TrainOn::last, "the assistant's last turn"},
     {TrainOn::completion, "the assistant's turns in the completion"}}};

}  // namespace

void refuse_options_of_chats(const PrepareOptions& options, bool documents) {
  const ChatRules& rules = options.chats;
  const auto refuse_where = [&](bool given, const std::string& option) {
    if (!given) return;
    throw UserError(fmt::format("{}: {} has no conversations", option, options.input),
                    "leave it out, or give JSONL (--format jsonl) with a conversation a line: messages, ShareGPT or Alpaca");
  };
  refuse_where(!rules.chat_template.empty(), "--chat-template " + rules.chat_template);
  const bool drops = documents && rules.too_long == TooLong::drop;
  refuse_where(rules.length != 0 && !drops && !(documents && options.pack), fmt::format("--length {}", rules.length));
  refuse_where(rules.too_long == TooLong::cut, "--too-long cut");
  const bool of_turns = rules.train_on == TrainOn::assistant || rules.train_on == TrainOn::last;
  refuse_where(of_turns || (!documents && rules.train_on != TrainOn::automatic),
               fmt::format("--train-on {}", lockstep::word_of(rules.train_on)));
  refuse_where(!documents && options.show != 0, fmt::format("--show {}", options.show));
  refuse_where(!documents && options.pack, "--pack");
}

LineReader::LineReader(const PrepareOptions& options, const TokenizerChoice& choice, Tokenizer* tokenizer,
                       const TextPieces& pieces)
    : options_(options), form_(RowForm::plain), written_(RowForm::plain), tokenizer_(tokenizer) {
  const std::optional<Json> first = first_row(pieces);
  if (first) form_ = form_of(*first);
  ChatRules rules = options.chats;
  if (pairs()) refuse_options_of_pairs(options);
  // A row that has no form is refused later, with its place.
  const auto has = [&](const char* key) { return first && member_of(*first, key) != nullptr; };
  if (form_ == RowForm::plain && (has("text") || has("prompt"))) refuse_options_of_chats(options, true);
  written_ = pairs() ? form_of_answers(*first) : form_;
  const bool texts = written_ == RowForm::plain;
  const bool counts = rules.length != 0 && (!texts || rules.too_long == TooLong::drop);
  if (counts && choice.kind == TokenizerChoice::Kind::trained) {
    throw UserError(fmt::format("--length {}: a tokenizer that is trained on the text cannot count before", rules.length),
                    "train it first (--out FOLDER without --length), then take --tokenizer hf:FOLDER/tokenizer.json");
  }
  const ModelTexts model = model_texts(choice);
  if (tokenizer != nullptr) take_end(*tokenizer, model, texts);
  if (texts) return;
  if (pairs()) rules.packed = true;
  teacher_.emplace(rules, written_, model, tokenizer);
}

void LineReader::make(const Json& object, ChatCounts& counts, std::vector<Document>& documents) const {
  if (const RowForm form = form_of(object); form != form_) {
    // A plain line that is none of the plain forms is told what it lacks.
    if (form == RowForm::plain) plain_document(object);
    throw UserError(fmt::format("this is of the form {}, and the first row of {}", name_of(form), name_of(form_)),
                    "prepare each form by itself, or write all rows in one");
  }
  for (const auto& [key, value] : object.object()) {
    if (!value.is_null() && !reads(form_, key)) counts.note_unread(key);
  }
  if (pairs()) return make_pair(object, counts, documents);
  add(documents, document(object, counts));
}

std::optional<Document> LineReader::document(const Json& object, ChatCounts& counts) const {
  if (!teacher_) {
    Document text = plain_document(object);
    if (fits(text)) return text;
    ++counts.dropped;
    return std::nullopt;
  }
  std::optional<ChatText> chat = teacher_->teach(object, counts);
  if (!chat) return std::nullopt;
  return Document{.prompt = {}, .text = std::move(chat->text), .taught = std::move(chat->taught)};
}

// Whether a text is not left out: with what begins and ends it.
bool LineReader::fits(const Document& text) const {
  const ChatRules& rules = options_.chats;
  if (rules.too_long != TooLong::drop) return true;
  if (tokenizer_ == nullptr) return count_characters(text.prompt) + count_characters(text.text) + 1 <= rules.length;
  EncodedPart part;
  part.add(*tokenizer_, text, true);
  return part.documents().front() <= rules.length;
}

// Both documents or none.
void LineReader::make_pair(const Json& object, ChatCounts& counts, std::vector<Document>& documents) const {
  const AnswerPair pair = answer_pair(object);
  if (pair.form != written_)
    throw UserError(
        fmt::format("its answers are {}, and those of the first row {}", kind_of_answers(pair.form), kind_of_answers(written_)),
        "prepare each form by itself, or write all rows in one");
  ChatCounts of_pair;
  std::vector<Document> made;
  const AnswerNames names = names_of_answers(object);
  for (const auto& [name, answer] : {std::pair(names.chosen, &pair.chosen), {names.rejected, &pair.rejected}}) {
    try {
      std::optional<Document> one = document(*answer, of_pair);
      if (one) made.push_back(std::move(*one));
    } catch (const UserError& error) {
      const Problem& problem = error.problems().front();
      throw UserError(fmt::format("with \"{}\": {}", name, problem.message), problem.remedy);
    }
  }
  if (of_pair.silent > 0) throw UserError("an answer of the pair teaches nothing", "give it a turn of the assistant");
  const bool whole = made.size() == 2;
  if (!whole) of_pair = {.dropped = 2};
  counts += of_pair;
  if (whole) std::ranges::move(made, std::back_inserter(documents));
}

std::string LineReader::found(bool prompts) const {
  if (!teacher_ && pairs()) return fmt::format("{}, texts", name_of(form_));
  if (!teacher_) return prompts ? "prompts with completions" : "texts";
  const auto taught = std::ranges::find(taught_words, teacher_->train_on(), &decltype(taught_words)::value_type::first);
  if (pairs()) return fmt::format("{}, written by {}; compared: the answers", name_of(form_), teacher_->template_name());
  return fmt::format("{}, written by {}; taught: {}", name_of(form_), teacher_->template_name(), taught->second);
}

std::optional<ChatFacts> LineReader::chats(const Tokenizer& tokenizer) const {
  return teacher_ ? std::optional(teacher_->facts(tokenizer)) : std::nullopt;
}

std::string LineReader::told(const ChatCounts& counts) const {
  const std::array<std::pair<std::int64_t, std::string>, 4> lines = {
      {{counts.dropped, fmt::format("left out, as they have more than {} tokens", options_.chats.length)},
       {counts.cut, fmt::format("cut between turns to {} tokens at most", options_.chats.length)},
       {counts.silent, "without anything that is taught"},
       {counts.thinking, "with thinking that the template leaves out"}}};
  std::string text;
  if (teacher_ && tokenizer_ != nullptr && !chats(*tokenizer_)->end)
    text +=
        "no special token of this tokenizer ends a turn: what is written later goes on behind it, unless --stop names its end\n";
  for (const auto& [count, what] : lines) {
    if (count > 0) text += fmt::format("{} {}: {}\n", teacher_ ? "conversations" : "documents", what, format_count(count));
  }
  if (!counts.unread.empty())
    text += fmt::format("members that are not read: {}\n", visible(fmt::format("{}", fmt::join(counts.unread, ", "))));
  return text;
}

void BadLines::add(const TextFile& file, const DocumentLines& lines) {
  if (file_ != &file) before_ = 0;
  file_ = &file;
  for (const BadLine& bad : lines.bad) {
    problems_.push_back(
        {fmt::format("{}, {} {}: {}", file.name, file.unit(), before_ + bad.line + 1, bad.problem.message), bad.problem.remedy});
  }
  before_ += lines.lines;
  if (problems_.size() >= most_bad_lines) check();
}

void BadLines::check() {
  if (problems_.empty()) return;
  problems_.resize(std::min(problems_.size(), most_bad_lines));
  throw UserError(std::move(problems_));
}

}  // namespace lockstep::data
