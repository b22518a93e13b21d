#pragma once

// A data set by name: what is missing is downloaded and prepared.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/log.h"
#include "data/tokenizer_choice.h"
#include "io/file.h"

namespace lockstep::data {

struct DatasetRequest {
  std::string name = "shakespeare_char";
  io::Path folder;                       ///< where its token files belong
  std::optional<std::string> file = {};  ///< a local text to prepare it from
  std::string url = {};                  ///< empty: where the named text is
  double wait_seconds = 1800;            ///< for another process that prepares the folder
  /// That of the model which is to read `file`; nothing: own_tokenizer().
  std::function<std::optional<TokenizerChoice>()> tokenizer = [] { return std::nullopt; };
};

/// The tokenizer of a text for which none is named: characters, above 5 MB a BPE of its own.
struct OwnTokenizer {
  std::string name;
  std::int64_t vocabulary;  ///< the size to expect; with characters it follows from the text
};
OwnTokenizer own_tokenizer(const io::Path& text);

/// Sees to it that `folder` holds token files. Files that are there stay, unless `file` is another text than theirs. Otherwise
/// they are prepared: from `file`, or for shakespeare_char from the folder's input.txt, downloaded when it is not there. One of
/// several processes prepares them and the others wait. Throws UserError when there is no network, what arrived is not the text,
/// or no address of the data set is known. Where the text needs options of `prepare`, the error names its command.
void ensure_dataset(const DatasetRequest& request, Log& log);

}  // namespace lockstep::data
