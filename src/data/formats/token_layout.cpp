#include "data/formats/token_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shell.h"
#include "base/units.h"
#include "data/formats/known_format.h"
#include "data/formats/megatron_index.h"
#include "io/file.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t most_ids = std::numeric_limits<std::int32_t>::max();
constexpr std::array<int, 3> raw_widths{2, 4, 8};

std::optional<int> told_bytes(const TokenRequest& request) {
  if (request.ids == any_ids) return std::nullopt;
  const auto* const found = std::ranges::find(id_types, request.ids, &IdType::name);
  ensure(found != id_types.end(), "the type of ids is one of the table's");
  return found->bytes;
}

std::int64_t vocabulary_of(const TokenRequest& request, std::int64_t usual) {
  return request.vocabulary.value_or(request.any_id ? most_ids : usual);
}

// The type that a user would say for ids of so many bytes.
std::string_view type_of(int bytes) { return bytes == 2 ? "uint16" : bytes == 4 ? "int32" : "int64"; }

std::uint64_t id_at(std::string_view bytes, std::size_t place, int width) {
  std::uint64_t id = 0;
  std::memcpy(&id, bytes.data() + place * static_cast<std::size_t>(width), static_cast<std::size_t>(width));
  return id;
}

/// What speaks against raw ids of a width at the start of a file.
struct Contradiction {
  std::string what;          ///< empty: nothing
  std::optional<int> wider;  ///< what zeros give away
};

Contradiction contradiction(const FileStart& start, int width, std::int64_t vocabulary, bool zeros_count) {
  const auto bytes = static_cast<std::uint64_t>(width);
  if (start.size % bytes != 0)
    return {fmt::format("has {} bytes, not a multiple of the {} of {}: it is truncated or no token file",
                        format_count(static_cast<std::int64_t>(start.size)), width, type_of(width)),
            {}};
  const std::size_t places = start.bytes.size() / bytes;
  std::array<bool, 4> met{};  // a number that is not 0, by place modulo 4
  for (std::size_t i = 0; i < places; ++i) {
    const std::uint64_t id = id_at(start.bytes, i, width);
    met[i % 4] = met[i % 4] || id != 0;
  }
  constexpr std::size_t enough = 8;
  if (zeros_count && width < 8 && places >= enough && !met[1] && !met[3] && (met[0] || met[2])) {
    const bool fourth = !met[2] && width == 2;
    return {fmt::format("has zeros in {} place of {}, as ids of {} bytes have", fourth ? "all but every fourth" : "every second",
                        type_of(width), fourth ? 8 : 2 * width),
            fourth ? 8 : 2 * width};
  }
  for (std::size_t i = 0; i < places; ++i) {
    const std::uint64_t id = id_at(start.bytes, i, width);
    if (id >= static_cast<std::uint64_t>(vocabulary))
      return {fmt::format("token {} has id {}, above the vocabulary of {}", i, id, format_count(vocabulary)), {}};
  }
  return {};
}

// Whether most ids of a width would be above all vocabularies, as narrower ones are that are read so. Narrower ones fit any file.
bool too_wide(const FileStart& start, int width, std::int64_t largest) {
  const std::size_t places = start.bytes.size() / static_cast<std::size_t>(width);
  std::size_t above = 0;
  for (std::size_t i = 0; i < places; ++i) above += id_at(start.bytes, i, width) >= static_cast<std::uint64_t>(largest) ? 1 : 0;
  return 2 * above > places;
}

// Ids alone: the last row of the table, for they have no mark.
TokenFormat raw_ids(const std::string& path, const FileStart& start, const TokenRequest& request) {
  const std::optional<int> told = told_bytes(request);
  constexpr std::int64_t gpt2 = TokenFormat{}.vocabulary;
  const std::int64_t vocabulary = told ? vocabulary_of(request, gpt2) : request.vocabulary.value_or(gpt2);
  const int width = told.value_or(TokenFormat::bytes_for(vocabulary));
  const TokenFormat format{.token_bytes = width, .vocabulary = vocabulary};
  const Contradiction found = contradiction(start, width, vocabulary, !told);
  if (found.what.empty()) return format;
  // Without a vocabulary, one that is larger than any known.
  const std::int64_t largest = request.vocabulary.value_or(std::int64_t{1} << 20);
  const auto fits = std::ranges::find_if(raw_widths, [&](int other) {
    if (other == width || (other < width && !too_wide(start, width, largest))) return false;
    return (!found.wider || *found.wider == other) && contradiction(start, other, largest, true).what.empty();
  });
  const std::string_view joint = found.what.starts_with("token ") ? ": " : " ";
  const std::string message = fmt::format("the token file {}{}{}", path, joint, found.what);
  if (fits == raw_widths.end()) {
    throw UserError(message, found.wider ? fmt::format("say what they are: {}{}, say", request.option, type_of(width))
                                         : "the file is damaged, or was made for another vocabulary: prepare the text again");
  }
  throw UserError(message, fmt::format("ids of {} bytes fit: {}{}{}", *fits, request.option, type_of(*fits),
                                       told ? ""
                                            : fmt::format("; if they are {} all the same: {}{}", type_of(width), request.option,
                                                          type_of(width))));
}

TokenFormat llmc_ids(const std::string& path, const FileStart& start, const LlmcTokens& kind, const TokenRequest& request) {
  std::array<std::int32_t, 3> header{};  // magic, version, tokens
  if (start.bytes.size() >= sizeof header) std::memcpy(header.data(), start.bytes.data(), sizeof header);
  if (header[1] != kind.version) {
    throw UserError(
        fmt::format("the llm.c token file {} has version {}, and this program reads version {}", path, header[1], kind.version),
        "make it again with llm.c's own scripts (dev/data)");
  }
  const std::uint64_t bytes = start.size - std::min(start.size, llmc_header_bytes);
  if (header[2] <= 0 || static_cast<std::uint64_t>(header[2]) * static_cast<std::uint64_t>(kind.token_bytes) != bytes) {
    throw UserError(
        fmt::format("the llm.c token file {} has {} bytes behind its header, but {} tokens by it: it is truncated or damaged",
                    path, format_count(static_cast<std::int64_t>(bytes)), header[2]),
        "copy it again");
  }
  const TokenFormat format{
      .token_bytes = kind.token_bytes, .vocabulary = vocabulary_of(request, kind.vocabulary), .header_bytes = llmc_header_bytes};
  demand_told(request, format, path + ", a llm.c token file,");
  return format;
}

bool is_megatron_index(const io::ByteSource& bytes) {
  constexpr std::string_view magic("MMIDIDX\0\0", 9);
  std::string start(magic.size(), '\0');
  if (bytes.size() < magic.size()) return false;
  bytes.read_at(0, std::as_writable_bytes(std::span(start)));
  return start == magic;
}

std::unique_ptr<io::ByteSource> open_index(const std::string& tokens) {
  const io::Path path = megatron_index_path(tokens);
  std::error_code unknown;
  if (path == tokens || !std::filesystem::is_regular_file(path, unknown)) return nullptr;
  auto index = std::make_unique<io::FileBytes>(path);
  return is_megatron_index(*index) ? std::move(index) : nullptr;
}

}  // namespace

std::vector<std::string_view> id_choices() {
  std::vector<std::string_view> names{any_ids};
  for (const IdType& type : id_types) names.push_back(type.name);
  return names;
}

void demand_told(const TokenRequest& request, const TokenFormat& format, const std::string& source) {
  const std::optional<int> told = told_bytes(request);
  if (!told || *told == format.token_bytes) return;
  throw UserError(fmt::format("{}{}: {} has ids of {} bytes", request.option, request.ids, source, format.token_bytes),
                  fmt::format("leave {} out", request.option.substr(0, request.option.find_first_of("= "))));
}

TokenFile open_token_file(const std::string& path, const TokenRequest& request) {
  if (!io::exists(path)) {
    throw UserError(fmt::format("there is no token file {}", path), "make it with lockstep prepare, or correct the path");
  }
  auto bytes = std::make_unique<io::FileBytes>(path);
  const std::unique_ptr<io::ByteSource> index = open_index(path);
  return open_token_file(path, request, std::move(bytes), index.get());
}

TokenFile open_token_file(const std::string& path, const TokenRequest& request, std::unique_ptr<io::ByteSource> bytes,
                          const io::ByteSource* index) {
  const FileStart start = start_of(*bytes);
  if (start.size == 0) throw UserError(fmt::format("the token file {} is empty", path), "prepare the text again");
  const KnownFormat* known = index == nullptr ? known_format(start) : nullptr;
  if (known != nullptr && known->ids == nullptr) throw UserError(std::vector<Problem>{refused(*known, path)});
  if (known != nullptr) return {path, llmc_ids(path, start, *known->ids, request), std::move(bytes)};
  if (index != nullptr) {
    const std::string name = megatron_index_path(path).string();
    const MegatronIndex documents(*index, name);
    const TokenFormat format{.token_bytes = documents.token_bytes(),
                             .vocabulary = vocabulary_of(request, TokenFormat{}.vocabulary)};
    demand_told(request, format, name);
    if (static_cast<std::uint64_t>(documents.tokens()) * static_cast<std::uint64_t>(format.token_bytes) != start.size) {
      throw UserError(fmt::format("{} has {} bytes, but {} tokens of {} bytes by {}", path,
                                  format_count(static_cast<std::int64_t>(start.size)), format_count(documents.tokens()),
                                  format.token_bytes, name),
                      "copy both again: they belong to different data sets, or one is cut off");
    }
    TokenFile file(path, format, std::move(bytes));
    file.set_documents(documents.documents(), name);
    return file;
  }
  constexpr std::uint64_t least_of_text = 16;
  if (const PlainText text = plain_text(start.bytes); start.size >= least_of_text && !text.zero() && text.strange == 0)
    throw UserError(fmt::format("{} is text, not token ids", path),
                    fmt::format("prepare it: {}", own_command({"prepare", path, "--out", "data/NAME"})));
  return {path, raw_ids(path, start, request), std::move(bytes)};
}

std::optional<std::int32_t> document_end(const TokenFile& file) {
  if (file.index_path().empty()) return std::nullopt;
  const io::FileBytes bytes(file.index_path());
  std::optional<std::int32_t> end;
  bool alike = true;
  MegatronIndex(bytes, file.index_path()).for_each_end([&](std::int64_t tokens) {
    if (!alike) return;
    std::int32_t last = 0;
    file.read(tokens - 1, std::span(&last, 1));
    alike = !end || *end == last;
    end = last;
  });
  return alike ? end : std::nullopt;
}

}  // namespace lockstep::data
