#pragma once

// GGUF, the files of llama.cpp: pairs of keys and values, a table of tensors, and the tensors' blocks. This file knows that
// container, of any model. Numbers are those of ggml (gguf.h, ggml.h) as gguf-py 0.19 has them (gguf/constants.py). What is read
// is trusted in nothing: every number is checked first.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/file.h"

namespace lockstep::io {

/// How elements are stored: `block` of them in `bytes`.
struct GgufType {
  std::uint32_t code;
  std::string_view name;
  std::int64_t block, bytes;
};
/// The type of that name; throws BrokenRule for one that ggml does not have.
const GgufType& gguf_type(std::string_view name);

struct GgufTensor {
  std::string name;
  const GgufType* type = nullptr;
  std::vector<std::int64_t> shape;  ///< the slowest dimension first, as everywhere here; files have the fastest first
  std::uint64_t offset = 0;         ///< of its first byte, from the start of the file
  std::uint64_t bytes = 0;
};

struct Gguf {
  Json pairs = Json::Object{};  ///< an object of texts, numbers, flags and lists of them
  std::vector<GgufTensor> tensors;
  std::uint64_t file_bytes = 0;

  /// The tensor of that name, or null.
  const GgufTensor* find(std::string_view name) const;
};

/// Whether the path is a file that is called or begins as a GGUF file.
bool is_gguf(const Path& path);

/// Reads versions 2 and 3. Throws UserError, naming `path` and the rule, for:
/// - another version or byte order, types that are not known, keys or tensors that are there twice
/// - a length or a number of things that the file has no room for, sizes that are no number of bytes
/// - tensors that overlap or do not lie in the file
Gguf parse_gguf(const ByteSource& file, std::string_view path);

/// Gives every tensor (name, type and shape are set) its place, and the file its size.
void lay_out_gguf(Gguf& file);
/// The bytes in front of the first tensor. Whole numbers are written as UINT32 (INT32 in lists), others as FLOAT32, an empty list
/// as one of texts.
std::string gguf_header_bytes(const Gguf& file);

/// The small files of a model's folder that the pairs describe (keys "tokenizer.*"): texts by the names of their files. They are
/// the chat template, the one for tools, and a tokenizer_config.json with the tokens that have a use ("bos_token"). Tokens that
/// no tokenizer finds in a text are left out: transformers would make another token of their text.
Json texts_of_gguf(const Json& pairs);

}  // namespace lockstep::io
