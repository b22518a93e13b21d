#pragma once

// The index beside a token file of Megatron-LM: how wide ids are, and where documents end
// (megatron/core/datasets/indexed_dataset.py, _IndexWriter).

#include <cstdint>
#include <functional>
#include <string>

#include "io/file.h"

namespace lockstep::data {

/// "train.idx" of "train.bin".
io::Path megatron_index_path(const io::Path& tokens);

class MegatronIndex {
 public:
  /// Reads all of it, in pieces. Throws UserError, naming `name`, for what is no such index, contradicts itself, or has its
  /// sequences in another order than the file.
  MegatronIndex(const io::ByteSource& bytes, const std::string& name);

  int token_bytes() const { return token_bytes_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  /// Calls use(token) for each document that is not empty, in order, with the number of tokens up to its end.
  void for_each_end(const std::function<void(std::int64_t)>& use) const;

 private:
  class Numbers;
  void walk(const std::function<void(std::int64_t)>& end) const;
  [[noreturn]] void refuse(const std::string& why) const;

  const io::ByteSource& bytes_;
  std::string name_;
  int token_bytes_ = 0;
  std::int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
};

}  // namespace lockstep::data
