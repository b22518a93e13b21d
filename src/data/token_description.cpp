#include "data/token_description.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "io/sha256.h"

namespace lockstep::data {
namespace {

constexpr const char* file_name = "tokens.json";
constexpr const char* format_name = "lockstep-tokens";
constexpr std::int64_t version = 1;
constexpr const char* stored_bpe = "tokenizer_json";  // Tokenizer::describe()
constexpr const char* remedy = "prepare the text again with lockstep prepare";

TokenFormat format_from_json(const Json& json, const std::string& what) {
  TokenFormat format;
  format.vocabulary = json.at("vocabulary").integer();
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

std::optional<MaskFacts> mask_from_json(const Json& facts) {
  const Json* mask = facts.find("mask");
  if (mask == nullptr) return std::nullopt;
  return MaskFacts{
      .name = mask->at("name").string(), .targets = mask->at("targets").integer(), .sha256 = mask->at("sha256").string()};
}

TokenDescription parsed(const Json& json, const std::string& what) {
  const Json* format = json.find("format");
  if (format == nullptr || !format->is_string() || format->string() != format_name) {
    throw UserError(fmt::format("{} does not describe token files: its \"format\" is not \"{}\"", what, format_name), remedy);
  }
  if (const std::int64_t found = json.at("version").integer(); found != version) {
    throw UserError(fmt::format("{} has version {}, this program reads version {}", what, found, version), remedy);
  }
  TokenDescription description;
  description.tokenizer = json.at("tokenizer");
  description.format = format_from_json(json, what);
  description.characters = json.at("characters").integer();
  if (const Json* documents = json.find("documents")) description.documents = documents->integer();
  for (const auto& [name, facts] : json.at("files").object()) {
    description.files.push_back({.name = name,
                                 .tokens = facts.at("tokens").integer(),
                                 .text_bytes = facts.at("text_bytes").integer(),
                                 .sha256 = facts.at("sha256").string(),
                                 .mask = mask_from_json(facts)});
    const TokenFileFacts& file = description.files.back();
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

// Masks that an earlier preparation of the folder made and this one did not.
std::vector<io::Path> old_masks(const io::Path& folder, const TokenDescription& description) {
  std::vector<io::Path> masks;
  try {
    const std::optional<TokenDescription> before = read_description(folder);
    if (!before) return masks;
    for (const TokenFileFacts& file : before->files) {
      const TokenFileFacts* now = description.find(file.name);
      if (file.mask && (now == nullptr || !now->mask)) masks.push_back(folder / file.mask->name);
    }
  } catch (const UserError&) {
    return masks;  // a description that says nothing
  }
  return masks;
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
  json.set("format", format_name);
  json.set("version", version);
  json.set("tokenizer", description.tokenizer);
  json.set("vocabulary", description.format.vocabulary);
  json.set("dtype", description.format.dtype());
  json.set("characters", description.characters);
  if (description.documents > 0) json.set("documents", description.documents);
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

std::optional<TokenDescription> read_description(const io::Path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(fmt::format("there is no folder {} with token files", folder.string()),
                    fmt::format("make it: lockstep prepare TEXT --out {}", folder.string()));
  }
  const io::Path path = folder / file_name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return description_from_json(Json::parse(io::read_file(path), path.string()), path.string());
}

void write_description(const io::Path& folder, const TokenDescription& description) {
  const io::Path copy = folder / "tokenizer.json", path = folder / file_name;
  const Json* text = description.tokenizer.is_object() ? description.tokenizer.find(stored_bpe) : nullptr;
  if (text != nullptr) {
    io::replace_file(copy, text->string());
  } else if (std::filesystem::exists(path) && io::read_file(path).find(fmt::format("\"{}\"", stored_bpe)) != std::string::npos) {
    std::filesystem::remove(copy);  // an earlier preparation's, not one that the user put there
  }
  const std::vector<io::Path> masks = old_masks(folder, description);
  io::replace_file(path, to_json(description).dump(2) + "\n");
  for (const io::Path& mask : masks) std::filesystem::remove(mask);
}

TokenFile open_described(const io::Path& folder, const TokenDescription& description, std::string_view name) {
  const TokenFileFacts* facts = description.find(name);
  const io::Path path = folder / name;
  if (facts == nullptr) throw UserError(fmt::format("{} does not describe {}", (folder / file_name).string(), name), remedy);
  TokenFile file(path.string(), description.format);
  if (file.tokens() != facts->tokens) {
    throw UserError(fmt::format("{} has {} tokens, but tokens.json says {}: it is truncated or of another text", path.string(),
                                format_count(file.tokens()), format_count(facts->tokens)),
                    remedy);
  }
  if (facts->mask) {
    const std::string mask = (folder / facts->mask->name).string();
    file.set_mask(mask, std::make_unique<io::MappedFile>(mask));
  }
  return file;
}

std::vector<std::string> damaged_files(const io::Path& folder, const TokenDescription& description) {
  std::vector<std::string> damaged;
  for (const TokenFileFacts& file : description.files) {
    if (io::sha256_of_file(folder / file.name) != file.sha256) damaged.push_back(file.name);
    if (file.mask && io::sha256_of_file(folder / file.mask->name) != file.mask->sha256) damaged.push_back(file.mask->name);
  }
  return damaged;
}

}  // namespace lockstep::data
