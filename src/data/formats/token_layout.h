#pragma once

// Token files of whichever program: recognised by what is in them, and opened.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_file.h"

namespace lockstep::data {

/// What ids without a header may be told to be.
struct IdType {
  std::string_view name;
  int bytes;
};
inline constexpr std::array<IdType, 4> id_types{{{"uint16", 2}, {"uint32", 4}, {"int32", 4}, {"int64", 8}}};
/// Where nothing is told: what the file says, or as few bytes as the vocabulary needs.
inline constexpr std::string_view any_ids = "auto";

/// The names of id_types, with any_ids first.
std::vector<std::string_view> id_choices();

struct TokenRequest {
  std::optional<std::int64_t> vocabulary = {};  ///< ids are below it; none: what the format is made for, else GPT-2's
  bool any_id = false;  ///< without a vocabulary, an id may be any where the file or the user says how wide ids are
  std::string ids = std::string(any_ids);  ///< a name of id_types, or any_ids
  std::string option = "data.ids=";        ///< how the user says that
};

/// Opens llm.c's files, Megatron's with the index beside them, and raw ids. Throws UserError for every other format that is
/// known, for text, and for ids that contradict what they are taken for. Such ids are not below the vocabulary, or have zeros in
/// every second place. Where another width fits, the error says so.
TokenFile open_token_file(const std::string& path, const TokenRequest& request);
/// Opens the same files from bytes. `index` has the Megatron index; it is null without one.
TokenFile open_token_file(const std::string& path, const TokenRequest& request, std::unique_ptr<io::ByteSource> bytes,
                          const io::ByteSource* index);

/// Throws UserError where ids are told to be wider or narrower than `format`, which `source` says.
void demand_told(const TokenRequest& request, const TokenFormat& format, const std::string& source);

/// The token with which every document of a file ends, by its Megatron index; nothing without one, or where they end with
/// different tokens.
std::optional<std::int32_t> document_end(const TokenFile& file);

}  // namespace lockstep::data
