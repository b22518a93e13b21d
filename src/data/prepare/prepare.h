#pragma once

// Text to train.bin, val.bin and tokens.json, in bounded memory whatever the size of the text. The first int(0.9 n) of the n
// characters are for training, the others for validation, whichever tokenizer is used. Documents of JSONL stay whole: those that
// begin in the first part are for training, but for the last document. Conversations are documents, too.

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "base/log.h"
#include "data/chat/chat_teacher.h"
#include "data/prepare/folder_lock.h"
#include "data/text/source.h"
#include "data/token_description.h"
#include "data/tokenizer_choice.h"
#include "io/file.h"
#include "io/space.h"

namespace lockstep::data {

struct PrepareOptions {
  std::string input = {};                      ///< a file, a pipe, a folder or "-": standard input
  std::string tokenizer = "char";              ///< a name of tokenizer_choice.h
  std::optional<TokenizerChoice> choice = {};  ///< in its place
  TextFormat format = TextFormat::automatic;
  bool binary = false;               ///< any file's bytes as they are: neither looked at nor unpacked
  io::Path out = {};                 ///< the folder for the three files; made when it is not there
  ChatRules chats = {};              ///< of JSONL
  std::int64_t show = 0;             ///< documents of JSONL that are printed with the facts
  bool pack = false;                 ///< documents of JSONL into windows of chats.length tokens, whole
  int shards = 0;                    ///< also cut the training text into as many files (data/shards.h); 0: do not
  std::size_t threads = 0;           ///< 0: one a core
  const FolderLock* lock = nullptr;  ///< of `out`, where the caller has it; null: it is taken, without waiting for another
  std::FILE* standard_input = stdin;
  std::FILE* facts = stdout;     ///< length, characters, vocabulary and counts are printed here
  std::FILE* progress = stderr;  ///< the progress bar, when it is a terminal
  io::FreeBytes free_bytes = io::free_bytes;
};

struct PrepareResult {
  TokenDescription description;
  std::string rows = {};    ///< of JSONL: lines that say what the rows are, and what became of them
  std::uint64_t bytes = 0;  ///< of text
  double seconds = 0;
};

/// Makes the token files of a text. Throws UserError for:
/// - a text that is missing, no text, on a device, damaged where it is compressed, or that changes meanwhile
/// - a text that is larger with its tokens than the free space of the folder
/// - a text that is empty, of one character only or not valid for the tokenizer (with the file and the byte)
/// - JSONL of less than two documents, with bad lines (the first of them, with file and line) or a part that teaches nothing
/// - a tokenizer or chat template that cannot be read
/// - a folder that cannot be written, that another process is preparing, or that has files of these names which no preparation
///   made
///
/// On failure files that were there before are unchanged and none is new (data/prepare/staging.h).
PrepareResult prepare(const PrepareOptions& options, Log& log);

}  // namespace lockstep::data
