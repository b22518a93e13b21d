#pragma once

// What training reads: a folder of prepared text.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/log.h"
#include "data/formats/token_layout.h"
#include "data/token_description.h"
#include "data/token_file.h"
#include "data/tokenizer.h"

namespace lockstep::data {

struct Corpus {
  TokenFile train, val;
  std::unique_ptr<Tokenizer> tokenizer;  ///< null for ids without description
  std::int64_t train_text_bytes = 0;     ///< 0: not known
  std::int64_t val_text_bytes = 0;
  std::optional<std::int32_t> document_end = {};  ///< the token behind each document, where the text is documents
  std::optional<Packing> packing = {};            ///< windows have whole documents
  std::optional<ChatFacts> chats = {};            ///< the text is conversations
  std::int64_t vocabulary() const { return train.format().vocabulary; }
};

struct CorpusRequest {
  std::optional<std::int64_t> vocabulary = {};  ///< the model's, where it does not follow from the text
  std::string ids = std::string(any_ids);       ///< data.ids
  bool documents = false;                       ///< files without description need a document_end
  std::string train = "train.bin";              ///< the training file; of a described text perhaps a shard
};

/// Opens val.bin and the training file. Without tokens.json they are what their content says (data/formats/token_layout.h), with
/// a warning: ids below the vocabulary that is asked for, or GPT-2's. Throws UserError for a missing folder or file, and for
/// files that contradict their description or data.ids. Ids of a described text that the model does not have are refused, too.
Corpus open_corpus(const io::Path& folder, const CorpusRequest& request, Log& log);
/// What open_corpus() found, for ranks that open no file of it; `folder` is where it did.
std::string tell_corpus(const io::Path& folder, const Corpus& corpus);
/// The corpus that tell_corpus() told of. To read its files is a mistake of the program.
Corpus told_corpus(const io::Path& folder, const std::string& told);
/// Reads what needs to be read to trust open files of a folder. Described files are read where they are not verified yet
/// (data/verification.h). All ids of files without a description are read. Throws UserError.
void verify_corpus(const io::Path& folder, std::span<const TokenFile* const> files, Log& log);
/// Throws UserError unless a model of `vocabulary` knows all ids of `file`, which is read where it may have others.
void demand_known_ids(const TokenFile& file, std::int64_t vocabulary);

/// Throws UserError where an id means another text to the tokenizer of the text `named` than to that of `model`, a folder or
/// file. Without one of them nothing is known.
void demand_same_tokens(const Tokenizer* text, const std::string& named, const Tokenizer* of_model, const std::string& model);

/// One token file for evaluation.
struct TokenText {
  TokenFile file;
  std::int64_t text_bytes = 0;  ///< of the tokens that are taught; 0: not known
  std::int64_t targets = 0;     ///< tokens that are taught
  std::optional<Packing> packing = {};
  std::unique_ptr<Tokenizer> tokenizer = {};  ///< null for ids without description
};

/// The file as the tokens.json beside it describes it; without one, as its content says.
TokenText open_tokens(const io::Path& path, const TokenRequest& request);

}  // namespace lockstep::data
