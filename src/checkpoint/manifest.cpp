#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "base/error.h"
#include "checkpoint/problems.h"
#include "io/checksum.h"

namespace lockstep::checkpoint {
namespace {

// The end of the text: the checksum of all bytes before it.
constexpr std::string_view seal_start = ",\n  \"checksum\": \"";
constexpr std::string_view seal_end = "\"\n}\n";

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t from_hex(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (fault != std::errc() || end != text.data() + text.size() || text.size() != 16) {
    throw UserError(fmt::format("\"{}\" is not a checksum of 16 hexadecimal digits", text));
  }
  return value;
}

std::string seal(std::string_view body) {
  return fmt::format("{}{}{}", seal_start, hex(io::checksum(std::as_bytes(std::span(body)), 1, 0)), seal_end);
}

Json loss_json(const std::optional<double>& loss) { return loss && std::isfinite(*loss) ? Json(*loss) : Json(); }

std::optional<double> read_loss(const Json& value) { return value.is_null() ? std::nullopt : std::optional(value.number()); }

Json tensor_json(const StoredTensor& stored) {
  Json::Array shape;
  for (int dim = 0; dim < stored.tensor.shape.rank(); ++dim) shape.emplace_back(stored.tensor.shape[dim]);
  return Json::Object{{"name", stored.tensor.name},
                      {"file", stored.file},
                      {"dtype", name_of(stored.tensor.dtype)},
                      {"shape", std::move(shape)},
                      {"checksum", hex(stored.checksum)}};
}

// A count that later arithmetic cannot overflow.
std::int64_t read_count(const Json& json, const char* key, std::int64_t most = std::int64_t{1} << 53) {
  const std::int64_t value = json.at(key).integer();
  if (value < 0 || value > most) throw UserError(fmt::format("\"{}\" is {}, but must be from 0 to {}", key, value, most));
  return value;
}

Shape read_shape(const Json::Array& list) {
  std::array<std::int64_t, Shape::max_rank> extents{};
  if (list.size() > extents.size())
    throw UserError(fmt::format("a tensor has {} dimensions, at most {} exist", list.size(), extents.size()));
  for (std::size_t dim = 0; dim < list.size(); ++dim) {
    extents[dim] = list[dim].integer();
    if (extents[dim] < 0) throw UserError(fmt::format("a tensor has the extent {}", extents[dim]));
  }
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < list.size(); ++dim) {
    if (__builtin_mul_overflow(elements, std::max<std::int64_t>(extents[dim], 1), &elements) || elements >> 53 != 0)
      throw UserError(fmt::format("a tensor has {} and more elements", std::int64_t{1} << 53));
  }
  switch (list.size()) {
    case 0:
      return {};
    case 1:
      return {extents[0]};
    case 2:
      return {extents[0], extents[1]};
    case 3:
      return {extents[0], extents[1], extents[2]};
    default:
      return {extents[0], extents[1], extents[2], extents[3]};
  }
}

StoredTensor read_tensor(const Json& json) {
  return {{json.at("name").string(), read_shape(json.at("shape").array()), dtype_from_name(json.at("dtype").string())},
          json.at("file").string(),
          from_hex(json.at("checksum").string())};
}

// A name of a file in the folder itself: a manifest from elsewhere must not point anywhere else.
std::string read_file_name(const Json& json) {
  const std::string& name = json.string();
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    throw UserError(fmt::format("\"{}\" is not the name of a file of a checkpoint", name));
  }
  return name;
}

DType read_model_type(const Json& json) {
  const DType type = dtype_from_name(json.string());
  if (type != DType::f32 && type != DType::bf16) throw UserError(fmt::format("no model computes in {}", json.string()));
  return type;
}

Manifest from_json(const Json& json) {
  Manifest manifest;
  manifest.program = json.at("program").string();
  manifest.step = read_count(json, "step");
  manifest.updates = read_count(json, json.find("updates") != nullptr ? "updates" : "step");  // older ones do not say
  manifest.seed = static_cast<std::uint64_t>(json.at("seed").integer());
  manifest.next_sample = read_count(json, "next_sample");
  manifest.tokens_seen = read_count(json, "tokens_seen", std::int64_t{1} << 62);
  manifest.global_batch = read_count(json, "global_batch", std::int64_t{1} << 31);
  manifest.validation_loss = read_loss(json.at("validation_loss"));
  manifest.best_validation_loss = read_loss(json.at("best_validation_loss"));
  if (const Json* dtype = json.find("dtype")) manifest.dtype = read_model_type(*dtype);  // else it is older than bf16
  manifest.master_is_model = json.at("master_is_model").boolean();
  manifest.model = json.at("model");
  manifest.optimizer = json.at("optimizer");
  manifest.run = json.at("run");
  if (const Json* layout = json.find("layout")) manifest.layout = *layout;  // older ones do not say
  for (const Json& file : json.at("files").array()) {
    manifest.files.push_back({read_file_name(file.at("name")), static_cast<std::uint64_t>(read_count(file, "bytes")),
                              from_hex(file.at("header_checksum").string())});
  }
  for (const Json& tensor : json.at("tensors").array()) {
    manifest.tensors.push_back(read_tensor(tensor));
    if (manifest.find_file(manifest.tensors.back().file) == nullptr) {
      throw UserError(fmt::format("tensor \"{}\" is said to lie in \"{}\", which is not among the files",
                                  manifest.tensors.back().tensor.name, manifest.tensors.back().file));
    }
  }
  return manifest;
}

}  // namespace

const StoredFile* Manifest::find_file(std::string_view name) const {
  const auto found = std::find_if(files.begin(), files.end(), [&](const StoredFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

std::uint64_t Manifest::bytes() const {
  std::uint64_t sum = 0;
  for (const StoredFile& file : files) sum += file.bytes;
  return sum;
}

std::string manifest_text(const Manifest& manifest) {
  Json::Array files, tensors;
  for (const StoredFile& file : manifest.files) {
    files.push_back(Json::Object{{"name", file.name}, {"bytes", file.bytes}, {"header_checksum", hex(file.header_checksum)}});
  }
  for (const StoredTensor& tensor : manifest.tensors) tensors.push_back(tensor_json(tensor));
  const Json json(Json::Object{{"format", manifest_format},
                               {"version", format_version},
                               {"program", manifest.program},
                               {"step", manifest.step},
                               {"updates", manifest.updates},
                               {"seed", manifest.seed},
                               {"next_sample", manifest.next_sample},
                               {"tokens_seen", manifest.tokens_seen},
                               {"global_batch", manifest.global_batch},
                               {"validation_loss", loss_json(manifest.validation_loss)},
                               {"best_validation_loss", loss_json(manifest.best_validation_loss)},
                               {"dtype", name_of(manifest.dtype)},
                               {"master_is_model", manifest.master_is_model},
                               {"model", manifest.model},
                               {"optimizer", manifest.optimizer},
                               {"run", manifest.run},
                               {"layout", manifest.layout},
                               {"files", std::move(files)},
                               {"tensors", std::move(tensors)}});
  std::string text = json.dump(2);
  text.resize(text.size() - 2);  // without "\n}"
  return text + seal(text);
}

Manifest parse_manifest(std::string_view text, std::string_view path) {
  const std::string remedy = use_another(std::filesystem::path(path).parent_path());
  const std::size_t start = text.rfind(seal_start);
  const bool sealed = start != std::string_view::npos && text.substr(start) == seal(text.substr(0, start));
  const Json json = Json::parse(text, path);
  const Json* format = json.is_object() ? json.find("format") : nullptr;
  if (format == nullptr || !format->is_string() || format->string() != manifest_format) {
    throw UserError(fmt::format("{}: this is not the manifest of a {}", path, manifest_format),
                    "give the folder of a checkpoint or of a run");
  }
  if (!sealed) {
    throw UserError(fmt::format("{}: the text does not match the checksum at its end: it was damaged or edited", path), remedy);
  }
  try {
    if (json.at("version").integer() != format_version) {
      throw UserError(
          fmt::format("its format version is {}, this program reads {}", json.at("version").integer(), format_version));
    }
    return from_json(json);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", path, error.problems().front().message), remedy);
  }
}

}  // namespace lockstep::checkpoint
