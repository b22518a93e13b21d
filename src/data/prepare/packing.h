#pragma once

// Whole documents in windows of so many tokens, by best-fit decreasing (Johnson 1973; for documents: Ding et al. 2024). A window
// begins at every multiple of its length, so that epochs of windows that do not overlap read whole documents.

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "data/prepare/encoded_part.h"
#include "data/prepare/token_writer.h"
#include "data/token_description.h"
#include "data/token_file.h"

namespace lockstep::data {

/// Documents of each window, by number, in their order; a token stands between two. Each has at most `length` tokens, or this
/// throws BrokenRule.
std::vector<std::vector<std::int64_t>> pack_documents(std::span<const std::int64_t> lengths, std::int64_t length);

/// Ids of a vocabulary that texts have.
class UsedIds {
 public:
  explicit UsedIds(std::int64_t vocabulary) : used_(static_cast<std::size_t>(vocabulary)) {}
  void add(std::span<const std::int32_t> ids);
  /// The last one that no text has, to stand between documents. Throws UserError where all are used.
  std::int32_t unused() const;

 private:
  std::vector<bool> used_;
};

/// Writes the documents of `text`, of these lengths one behind the other, as packed windows. Documents of pairs have a window
/// each. Between documents and behind the last of a window stands `packing.separator`. Neither it nor a document's first token is
/// taught. Behind the last window stands one more separator. Returns what was done, for people. Throws UserError for a document
/// that is longer than a window.
std::string write_packed(const TokenFile& text, std::span<const std::int64_t> lengths, const Packing& packing,
                         std::int64_t text_bytes, TokenWriter& writer);

/// The documents of a preparation, which is told of them in their order, until they are all known.
class Packer {
 public:
  /// Keeps the documents in files of `folder`.
  Packer(const io::Path& folder, const TokenFormat& format, std::int64_t length, bool pairs);
  TokenWriter& train() { return train_.writer; }
  TokenWriter& val() { return val_.writer; }
  /// Notes the documents that come next into train() and val().
  void note(const EncodedPart& train, const EncodedPart& val);
  /// Writes packed windows of both, and says so in `facts`. Throws UserError as write_packed() and UsedIds do.
  Packing pack(TokenWriter& train, TokenWriter& val, std::FILE* facts);

 private:
  struct Part {
    TokenWriter writer;
    std::vector<std::int64_t> lengths = {};
  };
  TokenFormat format_;
  std::int64_t length_;
  bool pairs_;
  UsedIds used_;
  Part train_, val_;
};

}  // namespace lockstep::data
