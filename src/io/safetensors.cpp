#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "base/checked.h"
#include "base/error.h"
#include "base/json.h"

namespace lockstep::io {
namespace {

constexpr std::string_view metadata_key = "__metadata__";
constexpr std::uint64_t length_bytes = 8;

struct ElementType {
  std::string_view name;
  std::size_t size;
};
constexpr std::array<ElementType, 15> element_types{{{"F32", 4},
                                                     {"BF16", 2},
                                                     {"F16", 2},
                                                     {"F64", 8},
                                                     {"I64", 8},
                                                     {"I32", 4},
                                                     {"I16", 2},
                                                     {"I8", 1},
                                                     {"U64", 8},
                                                     {"U32", 4},
                                                     {"U16", 2},
                                                     {"U8", 1},
                                                     {"BOOL", 1},
                                                     {"F8_E4M3", 1},
                                                     {"F8_E5M2", 1}}};

// What a message shows of a text from a file: not more than a line of it.
std::string cut(const std::string& text) {
  constexpr std::size_t limit = 80;
  return text.size() <= limit ? text : text.substr(0, limit) + "...";
}
std::string shown(std::string_view text) { return cut(Json(text).dump()); }

// The complaints about one file.
struct Complaint {
  std::string_view path;

  [[noreturn]] void file(const std::string& what) const {
    throw UserError(fmt::format("{}: {}", path, what),
                    "give a complete safetensors file; copy or write this one again if it should be one");
  }
  [[noreturn]] void tensor(std::string_view name, const std::string& what) const {
    file(fmt::format("tensor {}: {}", shown(name), what));
  }
};

// Elements times their size, where that is a number of bytes that a file can have.
std::optional<std::uint64_t> bytes_of(const std::vector<std::int64_t>& shape, std::size_t element_size) {
  std::int64_t bytes = static_cast<std::int64_t>(element_size);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

std::vector<std::int64_t> read_naturals(const Json* list, std::string_view name, std::string_view key,
                                        const Complaint& complain) {
  if (list == nullptr) complain.tensor(name, fmt::format("\"{}\" is missing from the header", key));
  std::vector<std::int64_t> numbers;
  bool good = list->is_array();
  if (good) {
    for (const Json& item : list->array()) {
      good = good && item.is_int() && item.integer() >= 0;
      if (good) numbers.push_back(item.integer());
    }
  }
  if (!good) complain.tensor(name, fmt::format("\"{}\" is {}, but must be a list of whole numbers >= 0", key, cut(list->dump())));
  return numbers;
}

SafetensorsEntry read_entry(const std::string& name, const Json& value, const SafetensorsHeader& header,
                            const Complaint& complain) {
  if (!value.is_object()) complain.tensor(name, fmt::format("its entry is {}, but must be an object", cut(value.dump())));
  SafetensorsEntry entry;
  entry.name = name;
  const Json* dtype = value.find("dtype");
  if (dtype == nullptr || !dtype->is_string()) complain.tensor(name, "\"dtype\" is missing from the header or not a string");
  entry.dtype = dtype->string();
  const std::size_t element_size = safetensors_element_size(entry.dtype);
  if (element_size == 0) {
    std::string known;
    for (const ElementType& type : element_types) known += fmt::format("{}{}", known.empty() ? "" : ", ", type.name);
    complain.tensor(name, fmt::format("its type {} is not known (known: {})", shown(entry.dtype), known));
  }
  entry.shape = read_naturals(value.find("shape"), name, "shape", complain);
  const std::vector<std::int64_t> range = read_naturals(value.find("data_offsets"), name, "data_offsets", complain);
  if (range.size() != 2) complain.tensor(name, fmt::format("\"data_offsets\" has {} numbers, but must have 2", range.size()));
  const auto begin = static_cast<std::uint64_t>(range[0]), end = static_cast<std::uint64_t>(range[1]);
  const std::uint64_t data_bytes = header.file_bytes - header.data_offset;
  if (begin > end || end > data_bytes) {
    complain.tensor(name,
                    fmt::format("its bytes [{}, {}) do not lie within the file's {} bytes of data; the file is truncated or "
                                "its header is wrong",
                                begin, end, data_bytes));
  }
  entry.offset = header.data_offset + begin;
  entry.bytes = end - begin;
  if (bytes_of(entry.shape, element_size) != entry.bytes) {
    complain.tensor(name, fmt::format("its range has {} bytes, which contradicts shape [{}] of {} ({} bytes each)", entry.bytes,
                                      fmt::join(entry.shape, ", "), entry.dtype, element_size));
  }
  return entry;
}

SafetensorsMetadata read_metadata(const Json& value, const Complaint& complain) {
  if (!value.is_object()) complain.file(fmt::format("\"{}\" must be an object of strings", metadata_key));
  SafetensorsMetadata metadata;
  for (const auto& [key, text] : value.object()) {
    if (!text.is_string()) {
      complain.file(fmt::format("\"{}\" must be an object of strings, but {} is {}", metadata_key, shown(key), cut(text.dump())));
    }
    metadata.emplace_back(key, text.string());
  }
  return metadata;
}

// Every byte of the data belongs to exactly one tensor. Sorts the entries by their place.
void check_cover(SafetensorsHeader& header, const Complaint& complain) {
  std::sort(header.entries.begin(), header.entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  std::uint64_t end = header.data_offset;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.offset != end) {
      complain.tensor(entry.name, fmt::format("its bytes start at {} of the data, but the tensor before ends at {}: ranges must "
                                              "neither overlap nor leave holes",
                                              entry.offset - header.data_offset, end - header.data_offset));
    }
    end += entry.bytes;
  }
  if (end != header.file_bytes) {
    complain.file(fmt::format("{} bytes follow after the last tensor; the file belongs to something else or was damaged",
                              header.file_bytes - end));
  }
}

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const SafetensorsEntry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

const std::string* SafetensorsHeader::find_metadata(std::string_view key) const {
  const auto found = std::find_if(metadata.begin(), metadata.end(), [&](const auto& pair) { return pair.first == key; });
  return found == metadata.end() ? nullptr : &found->second;
}

std::size_t safetensors_element_size(std::string_view dtype) {
  const auto found =
      std::find_if(element_types.begin(), element_types.end(), [&](const ElementType& t) { return t.name == dtype; });
  return found == element_types.end() ? 0 : found->size;
}

std::string safetensors_header_bytes(const SafetensorsHeader& header) {
  Json json{Json::Object{}};
  if (!header.metadata.empty()) {
    Json::Object metadata;
    for (const auto& [key, value] : header.metadata) metadata.emplace_back(key, value);
    json.set(std::string(metadata_key), std::move(metadata));
  }
  Json::Object tensors = json.object();
  for (const SafetensorsEntry& entry : header.entries) {
    const auto begin = entry.offset - header.data_offset;
    tensors.emplace_back(entry.name, Json::Object{{"dtype", entry.dtype},
                                                  {"shape", Json::Array(entry.shape.begin(), entry.shape.end())},
                                                  {"data_offsets", Json::Array{begin, begin + entry.bytes}}});
  }
  std::string text = Json(std::move(tensors)).dump();
  const std::size_t whole = static_cast<std::size_t>(
      round_up(narrow<std::int64_t>(length_bytes + text.size()), narrow<std::int64_t>(safetensors_alignment)));
  text.append(whole - length_bytes - text.size(), ' ');
  const std::uint64_t length = text.size();
  std::string bytes(length_bytes, '\0');
  std::memcpy(bytes.data(), &length, length_bytes);
  return bytes + text;
}

SafetensorsHeader lay_out_safetensors(const std::vector<SafetensorsEntry>& entries, SafetensorsMetadata metadata) {
  std::unordered_set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    ensure(safetensors_element_size(entry.dtype) != 0, "the format knows the type");
    if (entry.name == metadata_key || !names.insert(entry.name).second) {
      throw UserError(fmt::format("two tensors of a file have the name {}", shown(entry.name)), "give every tensor its own name");
    }
  }
  SafetensorsHeader header{{}, std::move(metadata), 0, 0};
  for (const std::size_t size : {8U, 4U, 2U, 1U}) {
    for (const SafetensorsEntry& entry : entries) {
      if (safetensors_element_size(entry.dtype) == size) header.entries.push_back(entry);
    }
  }
  std::uint64_t end = 0;
  for (SafetensorsEntry& entry : header.entries) {
    const auto bytes = bytes_of(entry.shape, safetensors_element_size(entry.dtype));
    ensure(bytes.has_value(), "a tensor's bytes fit 64 bits");
    entry.offset = end;
    entry.bytes = *bytes;
    end += *bytes;
  }
  // Offsets in the header count from the data's start, so its length does not depend on where that is.
  header.data_offset = safetensors_header_bytes(header).size();
  for (SafetensorsEntry& entry : header.entries) entry.offset += header.data_offset;
  header.file_bytes = header.data_offset + end;
  return header;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> start, std::uint64_t file_bytes, std::string_view path) {
  const Complaint complain{path};
  if (file_bytes < length_bytes || start.size() < length_bytes) {
    complain.file(fmt::format("the file has {} bytes, but a safetensors file starts with 8 bytes of header length", file_bytes));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), length_bytes);
  if (length > max_safetensors_header) {
    complain.file(
        fmt::format("the header claims {} bytes, the limit is {}: this is no safetensors file", length, max_safetensors_header));
  }
  if (length > file_bytes - length_bytes || length > start.size() - length_bytes) {
    complain.file(
        fmt::format("the header claims {} bytes, but the file has {} after the length: truncated, or no safetensors file", length,
                    file_bytes - length_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + length_bytes, static_cast<std::size_t>(length));
  if (text.empty() || text.front() != '{') complain.file("the header does not start with \"{\": this is no safetensors file");
  SafetensorsHeader header;
  header.data_offset = length_bytes + length;
  header.file_bytes = file_bytes;
  Json::for_each_member(text, fmt::format("{}: header", path), [&](const std::string& name, const Json& value) {
    if (name == metadata_key) {
      header.metadata = read_metadata(value, complain);
    } else {
      header.entries.push_back(read_entry(name, value, header, complain));
    }
  });
  check_cover(header, complain);
  return header;
}

std::vector<std::byte> read_safetensors_start(const File& file) {
  const std::uint64_t size = file.size();
  std::vector<std::byte> start(std::min(size, length_bytes));
  file.read_at(0, start);
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), start.size());
  if (length <= max_safetensors_header && length + length_bytes <= size) {
    start.resize(static_cast<std::size_t>(length + length_bytes));
    file.read_at(0, start);
  }
  return start;
}

}  // namespace lockstep::io
