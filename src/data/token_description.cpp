#include "data/token_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/shell.h"
#include "base/units.h"
#include "io/file.h"
#include "io/sha256.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t version = 1;
constexpr const char* remedy = "prepare the text again with lockstep prepare";

TokenFormat format_from_json(const Json& json, const std::string& what) {
  TokenFormat format;
  format.vocabulary = json.at("vocabulary").integer();
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // an id is an int32
  if (format.vocabulary > most) {
    throw UserError(fmt::format("{}: vocabulary {} is above {}", what, format.vocabulary, most), remedy);
  }
  if (format.vocabulary < 1) throw UserError(fmt::format("{}: vocabulary {} is not positive", what, format.vocabulary), remedy);
  const std::string& dtype = json.at("dtype").string();
  if (dtype != "uint16" && dtype != "uint32") {
    throw UserError(fmt::format("{}: dtype \"{}\" is neither uint16 nor uint32", what, dtype), remedy);
  }
  format.token_bytes = dtype == "uint16" ? 2 : 4;
  if (format.token_bytes < TokenFormat::bytes_for(format.vocabulary)) {
    throw UserError(fmt::format("{}: a vocabulary of {} does not fit {}", what, format_count(format.vocabulary), dtype), remedy);
  }
  return format;
}

// A description from elsewhere must not point anywhere else than into its folder.
void check_name(const std::string& name, const std::string& what) {
  const bool steers = std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (!name.empty() && name.front() != '.' && name.find('/') == std::string::npos && !steers) return;
  throw UserError(fmt::format("{}: {} is not the name of a file in its folder", what, Json(name).dump()), remedy);
}

void check_count(std::int64_t value, std::string_view key, const std::string& what) {
  constexpr std::int64_t most = std::int64_t{1} << 48;
  if (value < 0 || value > most) throw UserError(fmt::format("{}: \"{}\" is {}, out of range", what, key, value), remedy);
}

std::optional<MaskFacts> mask_from_json(const Json& facts) {
  const Json* mask = facts.find("mask");
  if (mask == nullptr) return std::nullopt;
  return MaskFacts{
      .name = mask->at("name").string(), .targets = mask->at("targets").integer(), .sha256 = mask->at("sha256").string()};
}

ChatFacts chats_from_json(const Json& json, std::int64_t vocabulary, const std::string& what) {
  ChatFacts chats{.chat_template = json.at("template").string(), .tokens = json.at("tokens").object(), .end = {}};
  for (const auto& [name, text] : chats.tokens) static_cast<void>(text.string());
  const Json& end = json.at("end");
  if (end.is_null()) return chats;
  if (end.integer() < 0 || end.integer() >= vocabulary)
    throw UserError(fmt::format("{}: \"end\" is {}, which is no token", what, end.integer()), remedy);
  chats.end = static_cast<std::int32_t>(end.integer());
  return chats;
}

TokenDescription parsed(const Json& json, const std::string& what) {
  const Json* format = json.find("format");
  if (format == nullptr || !format->is_string() || format->string() != description_format) {
    throw UserError(fmt::format("{} does not describe token files: its \"format\" is not \"{}\"", what, description_format),
                    remedy);
  }
  if (const std::int64_t found = json.at("version").integer(); found != version) {
    throw UserError(fmt::format("{} has version {}, this program reads version {}", what, found, version), remedy);
  }
  TokenDescription description;
  description.tokenizer = json.at("tokenizer");
  description.format = format_from_json(json, what);
  description.characters = json.at("characters").integer();
  if (const Json* documents = json.find("documents")) description.documents = documents->integer();
  check_count(description.characters, "characters", what);
  check_count(description.documents, "documents", what);
  if (const Json* text = json.find("text")) {
    description.text = TextFacts{.bytes = text->at("bytes").integer(), .sha256 = text->at("sha256").string()};
    check_count(description.text->bytes, "bytes", what);
  }
  if (const Json* packing = json.find("packing")) {
    const std::int64_t separator = packing->at("separator").integer(), length = packing->at("length").integer();
    check_count(length - 1, "length", what);
    if (separator < 0 || separator >= description.format.vocabulary)
      throw UserError(fmt::format("{}: \"separator\" is {}, which is no token", what, separator), remedy);
    const Json* pairs = packing->find("pairs");
    description.packing = Packing{length, static_cast<std::int32_t>(separator), pairs != nullptr && pairs->boolean()};
  }
  if (const Json* chats = json.find("chats")) description.chats = chats_from_json(*chats, description.format.vocabulary, what);
  for (const auto& [name, facts] : json.at("files").object()) {
    description.files.push_back({.name = name,
                                 .tokens = facts.at("tokens").integer(),
                                 .text_bytes = facts.at("text_bytes").integer(),
                                 .sha256 = facts.at("sha256").string(),
                                 .mask = mask_from_json(facts)});
    const TokenFileFacts& file = description.files.back();
    check_name(name, what);
    check_count(file.tokens, "tokens", what);
    check_count(file.text_bytes, "text_bytes", what);
    if (description.packing && description.packing->pairs && (file.tokens - 1) % (2 * description.packing->length) != 0)
      throw UserError(fmt::format("{}: {} has {} tokens, which are no whole pairs", what, name, file.tokens), remedy);
    if (!file.mask) continue;
    if (file.mask->name != mask_name(name)) {
      throw UserError(fmt::format("{}: the mask of {} is named \"{}\", not \"{}\"", what, name, file.mask->name, mask_name(name)),
                      remedy);
    }
    if (file.mask->targets < 0 || file.mask->targets > file.tokens) {
      throw UserError(fmt::format("{}: the mask of {} counts {} of {} tokens", what, name, file.mask->targets, file.tokens),
                      remedy);
    }
  }
  return description;
}

bool is_number(std::string_view text) {
  return text.size() == 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

const TokenFileFacts* TokenDescription::find(std::string_view name) const {
  for (const TokenFileFacts& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

Json to_json(const TokenDescription& description) {
  Json files;
  for (const TokenFileFacts& file : description.files) {
    Json facts;
    facts.set("tokens", file.tokens);
    facts.set("text_bytes", file.text_bytes);
    facts.set("sha256", file.sha256);
    if (file.mask) {
      facts.set("mask", Json::Object{{"name", file.mask->name}, {"targets", file.mask->targets}, {"sha256", file.mask->sha256}});
    }
    files.set(file.name, std::move(facts));
  }
  Json json;
  json.set("format", description_format);
  json.set("version", version);
  json.set("tokenizer", description.tokenizer);
  json.set("vocabulary", description.format.vocabulary);
  json.set("dtype", description.format.dtype());
  json.set("characters", description.characters);
  if (description.documents > 0) json.set("documents", description.documents);
  if (description.text) {
    json.set("text", Json::Object{{"bytes", description.text->bytes}, {"sha256", description.text->sha256}});
  }
  if (description.packing) {
    Json packing =
        Json::Object{{"length", description.packing->length}, {"separator", std::int64_t{description.packing->separator}}};
    if (description.packing->pairs) packing.set("pairs", true);
    json.set("packing", std::move(packing));
  }
  if (description.chats) {
    const ChatFacts& chats = *description.chats;
    json.set("chats",
             Json::Object{
                 {"template", chats.chat_template}, {"tokens", chats.tokens}, {"end", chats.end ? Json(*chats.end) : Json()}});
  }
  json.set("files", std::move(files));
  return json;
}

TokenDescription description_from_json(const Json& json, const std::string& what) {
  try {
    return parsed(json, what);
  } catch (const UserError& error) {
    const Problem& problem = error.problems().front();
    if (problem.message.starts_with(what)) throw;
    throw UserError(fmt::format("{}: {}", what, problem.message), problem.remedy);  // a member's name or type
  }
}

bool is_prepared_name(std::string_view name) {
  for (const std::string_view end : {".mask.bin", ".bin"}) {
    if (!name.ends_with(end)) continue;
    name.remove_suffix(end.size());
    break;
  }
  if (name == "train" || name == "val") return true;
  constexpr std::string_view start = "train-", middle = "-of-";  // train-00001-of-00004
  if (name.size() != start.size() + 5 + middle.size() + 5) return false;
  return name.starts_with(start) && is_number(name.substr(6, 5)) && name.substr(11, 4) == middle && is_number(name.substr(15));
}

io::Path described_path(const io::Path& folder, std::string_view name) {
  std::error_code unknown;
  const io::Path waiting = folder / prepared_folder / name;
  return std::filesystem::exists(waiting, unknown) ? waiting : folder / name;
}

bool is_prepared(const io::Path& folder) {
  std::error_code unknown;
  return std::filesystem::exists(described_path(folder, description_file), unknown);
}

TokenDescription read_description_file(const io::Path& path) { return parse_description(description_text(path), path.string()); }

TokenDescription parse_description(const std::string& text, const std::string& name) {
  return description_from_json(Json::parse(text, name), name);
}

std::string description_text(const io::Path& path) {
  constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;  // it may hold a tokenizer.json
  return io::read_document(path, most_bytes);
}

namespace {

// Calls use(path) with where a file is. One that waits may be moved into its place meanwhile.
template <class Use>
auto at_described_path(const io::Path& folder, std::string_view name, const Use& use) {
  const io::Path path = described_path(folder, name), place = folder / name;
  if (path == place) return use(place);
  try {
    return use(path);
  } catch (const UserError&) {
    if (io::exists(path)) throw;
  }
  return use(place);
}

}  // namespace

std::optional<TokenDescription> read_description(const io::Path& folder) {
  if (!io::is_folder(folder) && io::exists(folder)) {
    const bool tokens = folder.extension() == ".bin";
    const std::string parent = folder.has_parent_path() ? folder.parent_path().string() : ".";
    const std::string made = (folder.parent_path() / folder.stem()).string() + "_tokens";
    throw UserError(fmt::format("{} is a file, not a folder with token files", folder.string()),
                    tokens ? fmt::format("name the folder that it lies in: {}", parent)
                           : fmt::format("prepare it, and name what that makes: {}",
                                         own_command({"prepare", folder.string(), "--out", made})));
  }
  if (!io::is_folder(folder)) {
    throw UserError(fmt::format("there is no folder {} with token files", folder.string()),
                    fmt::format("make it: lockstep prepare TEXT --out {}", shell_words({folder.string()})));
  }
  if (!is_prepared(folder)) return std::nullopt;
  return at_described_path(folder, description_file, read_description_file);
}

void write_description(const io::Path& folder, const TokenDescription& description) {
  io::replace_file(folder / description_file, to_json(description).dump(2) + "\n");
}

TokenFile open_described(const io::Path& folder, const TokenDescription& description, std::string_view name) {
  const TokenFileFacts* facts = description.find(name);
  if (facts == nullptr)
    throw UserError(fmt::format("{} does not describe {}", (folder / description_file).string(), name), remedy);
  TokenFile file =
      at_described_path(folder, name, [&](const io::Path& path) { return TokenFile(path.string(), description.format); });
  if (file.tokens() != facts->tokens) {
    throw UserError(fmt::format("{} has {} tokens, but tokens.json says {}: it is truncated or of another text", file.path(),
                                format_count(file.tokens()), format_count(facts->tokens)),
                    remedy);
  }
  if (facts->mask) {
    at_described_path(folder, facts->mask->name,
                      [&](const io::Path& mask) { file.set_mask(mask.string(), std::make_unique<io::FileBytes>(mask)); });
  }
  return file;
}

std::vector<std::string> damaged_files(const io::Path& folder, const TokenDescription& description) {
  std::vector<std::string> damaged;
  for (const TokenFileFacts& file : description.files) {
    if (io::sha256_of_file(described_path(folder, file.name)) != file.sha256) damaged.push_back(file.name);
    if (file.mask && io::sha256_of_file(described_path(folder, file.mask->name)) != file.mask->sha256) {
      damaged.push_back(file.mask->name);
    }
  }
  return damaged;
}

}  // namespace lockstep::data
