#include "io/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/text/utf8.h"

namespace lockstep::io {
namespace {

constexpr std::string_view gguf_magic = "GGUF";
constexpr std::uint32_t newest_gguf = 3, oldest_gguf = 2;  // between them nothing has changed in place
constexpr std::string_view alignment_key = "general.alignment";
constexpr std::uint64_t usual_alignment = 32, most_dimensions = 4, most_name_bytes = 63;
// Headers of a quarter of a million tokens have some 10 MB.
constexpr std::uint64_t most_header_bytes = 100'000'000, most_elements = std::uint64_t{1} << 22;

constexpr std::array<GgufType, 34> ggml_types{
    {{0, "F32", 1, 4},        {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},    {3, "Q4_1", 32, 20},    {6, "Q5_0", 32, 22},
     {7, "Q5_1", 32, 24},     {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 40},    {10, "Q2_K", 256, 84},  {11, "Q3_K", 256, 110},
     {12, "Q4_K", 256, 144},  {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210}, {15, "Q8_K", 256, 292}, {16, "IQ2_XXS", 256, 66},
     {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50}, {20, "IQ4_NL", 32, 18}, {21, "IQ3_S", 256, 110},
     {22, "IQ2_S", 256, 82},  {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},       {25, "I16", 1, 2},      {26, "I32", 1, 4},
     {27, "I64", 1, 8},       {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56}, {30, "BF16", 1, 2},     {34, "TQ1_0", 256, 54},
     {35, "TQ2_0", 256, 66},  {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},  {41, "Q1_0", 128, 18}}};

enum class Value : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, flag, text, list, u64, i64, f64 };
constexpr std::array<std::uint64_t, 13> least_bytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

class Cursor {
 public:
  Cursor(const ByteSource& file, std::string_view path)
      : file_(file), path_(path), end_(std::min(file.size(), most_header_bytes)) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(fmt::format("{}: {}", path_, what),
                    "give a complete GGUF file of version 2 or 3; copy or write this one again if it should be one");
  }

  template <class T>
  T number() {
    T value;
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  /// How many of something there are, each of at least so many bytes.
  std::uint64_t count(std::uint64_t each, std::string_view of) {
    const auto said = number<std::uint64_t>();
    if (said <= (end_ - at_) / each) return said;
    refuse(fmt::format("byte {}: it claims {} {}, but there are {} bytes left{}", at_ - 8, said, of, end_ - at_,
                       end_ < file_.size() ? " of the longest header that is read" : ""));
  }

  std::string string() {
    const std::uint64_t at = at_;
    std::string bytes(static_cast<std::size_t>(count(1, "bytes of text")), '\0');
    take(std::as_writable_bytes(std::span(bytes)));
    if (invalid_utf8_at(bytes) != std::string::npos) refuse(fmt::format("byte {}: the text there is not valid UTF-8", at + 8));
    return bytes;
  }

  Json value(std::uint32_t type, std::string_view key) {
    using V = Value;
    switch (static_cast<Value>(type)) {
      case V::u8:
        return static_cast<std::int64_t>(number<std::uint8_t>());
      case V::i8:
        return static_cast<std::int64_t>(number<std::int8_t>());
      case V::u16:
        return static_cast<std::int64_t>(number<std::uint16_t>());
      case V::i16:
        return static_cast<std::int64_t>(number<std::int16_t>());
      case V::u32:
        return static_cast<std::int64_t>(number<std::uint32_t>());
      case V::i32:
        return static_cast<std::int64_t>(number<std::int32_t>());
      case V::f32:
        return static_cast<double>(number<float>());
      case V::flag:
        return number<std::uint8_t>() != 0;
      case V::text:
        return string();
      case V::list:
        return array(key);
      case V::u64:
        return large(key);
      case V::i64:
        return number<std::int64_t>();
      case V::f64:
        return number<double>();
      default:
        refuse(fmt::format("\"{}\" has a value of type {}, which is not known", key, type));
    }
  }

  std::uint64_t at() const { return at_; }

 private:
  void take(std::span<std::byte> out) {
    if (out.size() > end_ - at_) refuse(fmt::format("it ends at byte {}, in the middle of its header", end_));
    for (std::size_t done = 0; done < out.size();) {
      if (at_ < start_ || at_ >= start_ + buffer_.size()) {
        start_ = at_;
        buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(std::uint64_t{1} << 16, end_ - at_)));
        file_.read_at(start_, buffer_);
      }
      const std::size_t from = static_cast<std::size_t>(at_ - start_);
      const std::size_t some = std::min(out.size() - done, buffer_.size() - from);
      std::memcpy(out.data() + done, buffer_.data() + from, some);
      done += some;
      at_ += some;
    }
  }

  Json large(std::string_view key) {
    const auto value = number<std::uint64_t>();
    if (std::in_range<std::int64_t>(value)) return value;
    refuse(fmt::format("\"{}\" is {}, but whole numbers here are below 2^63", key, value));
  }

  Json array(std::string_view key) {
    const auto type = number<std::uint32_t>();
    if (type >= least_bytes.size() || type == static_cast<std::uint32_t>(Value::list))
      refuse(fmt::format("\"{}\" is a list of type {}, which is not read", key, type));
    const std::uint64_t size = count(least_bytes[type], "elements");
    elements_ += size;
    if (elements_ > most_elements) refuse(fmt::format("\"{}\": lists of more than {} elements are not read", key, most_elements));
    Json::Array all;
    all.reserve(static_cast<std::size_t>(size));
    for (std::uint64_t i = 0; i < size; ++i) all.push_back(value(type, key));
    return all;
  }

  const ByteSource& file_;
  std::string_view path_;
  std::uint64_t end_, at_ = 0, start_ = 0, elements_ = 0;
  std::vector<std::byte> buffer_;  ///< of the file, from start_ on
};

/// Bytes of elements of the shape; 0 where blocks do not fill a row, or the number is none that a file can have.
std::uint64_t bytes_of(const std::vector<std::int64_t>& shape, const GgufType& type) {
  if (shape.back() % type.block != 0) return 0;
  std::int64_t bytes = shape.back() / type.block;
  bool good = !__builtin_mul_overflow(bytes, type.bytes, &bytes);
  for (std::size_t dim = 0; dim + 1 < shape.size(); ++dim) good = good && !__builtin_mul_overflow(bytes, shape[dim], &bytes);
  return good ? static_cast<std::uint64_t>(bytes) : 0;
}

GgufTensor read_tensor(Cursor& cursor) {
  GgufTensor tensor;
  tensor.name = cursor.string();
  const auto complain = [&](const std::string& what) { cursor.refuse(fmt::format("the tensor \"{}\" {}", tensor.name, what)); };
  if (tensor.name.empty() || tensor.name.size() > most_name_bytes) {
    cursor.refuse(fmt::format("a tensor's name has {} bytes, but must have 1 to {}", tensor.name.size(), most_name_bytes));
  }
  const auto dimensions = cursor.number<std::uint32_t>();
  if (dimensions < 1 || dimensions > most_dimensions) {
    complain(fmt::format("has {} dimensions, but must have 1 to {}", dimensions, most_dimensions));
  }
  for (std::uint32_t dim = 0; dim < dimensions; ++dim) {
    const auto extent = cursor.number<std::uint64_t>();
    if (extent < 1 || !std::in_range<std::int64_t>(extent)) complain(fmt::format("has a dimension of {}", extent));
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));
  }
  const auto code = cursor.number<std::uint32_t>();
  const auto* const type = std::ranges::find(ggml_types, code, &GgufType::code);
  if (type == ggml_types.end()) complain(fmt::format("is of type {}, which is not known", code));
  tensor.type = type;
  tensor.bytes = bytes_of(tensor.shape, *type);
  if (tensor.bytes == 0) {
    complain(fmt::format("of shape [{}] has no size in {}, which has blocks of {}", fmt::join(tensor.shape, ", "), type->name,
                         type->block));
  }
  tensor.offset = cursor.number<std::uint64_t>();
  return tensor;
}

std::uint64_t alignment_of(const Json& pairs, const Cursor& cursor) {
  const Json* said = pairs.find(alignment_key);
  if (said == nullptr) return usual_alignment;
  constexpr std::int64_t most = std::int64_t{1} << 20;
  const std::int64_t value = said->is_int() ? said->integer() : 0;
  if (value < 1 || value > most || !std::has_single_bit(static_cast<std::uint64_t>(value))) {
    cursor.refuse(
        fmt::format("\"{}\" is {}, but must be a power of two up to {}", alignment_key, said->dump().substr(0, 40), most));
  }
  return static_cast<std::uint64_t>(value);
}

/// Offsets become those of the file; every tensor lies in it, by itself.
void check_places(Gguf& file, std::uint64_t start, std::uint64_t alignment, const Cursor& cursor) {
  std::vector<const GgufTensor*> order;
  for (GgufTensor& tensor : file.tensors) {
    const std::uint64_t data = file.file_bytes - std::min(start, file.file_bytes);
    if (tensor.offset % alignment != 0 || tensor.offset > data || tensor.bytes > data - tensor.offset) {
      cursor.refuse(fmt::format(
          "the tensor \"{}\" has {} bytes at {} of the data, which has {} bytes, in steps of {}: truncated, or a wrong header",
          tensor.name, tensor.bytes, tensor.offset, data, alignment));
    }
    tensor.offset += start;
    order.push_back(&tensor);
  }
  std::ranges::sort(order, {}, &GgufTensor::offset);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
      cursor.refuse(fmt::format("the tensors \"{}\" and \"{}\" overlap", order[i - 1]->name, order[i]->name));
  }
}

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void put_text(std::string& bytes, std::string_view text) {
  put(bytes, std::uint64_t{text.size()});
  bytes += text;
}

Value type_of(const Json& value, Value whole) {
  if (value.is_string()) return Value::text;
  if (value.is_bool()) return Value::flag;
  if (value.is_array()) return Value::list;
  ensure(value.is_number(), "GGUF has texts, flags, numbers and lists");
  return value.is_int() ? whole : Value::f32;
}

void put_value(std::string& bytes, const Json& value, Value type) {
  if (type == Value::text) return put_text(bytes, value.string());
  if (type == Value::flag) return put(bytes, static_cast<std::uint8_t>(value.boolean()));
  if (type == Value::u32) return put(bytes, narrow<std::uint32_t>(value.integer()));
  if (type == Value::i32) return put(bytes, narrow<std::int32_t>(value.integer()));
  if (type == Value::f32) return put(bytes, static_cast<float>(value.number()));
  const Json::Array& all = value.array();
  const Value inner = all.empty() ? Value::text : type_of(all.front(), Value::i32);
  put(bytes, static_cast<std::uint32_t>(inner));
  put(bytes, std::uint64_t{all.size()});
  for (const Json& one : all) put_value(bytes, one, inner);
}

/// The texts of the tokens that have a use, as tokenizer_config.json names them.
Json named_tokens(const Json& pairs) {
  constexpr std::int64_t unknown = 2, control = 3, user = 4;  // llama.h, enum llama_token_type
  constexpr auto names = std::to_array<std::pair<const char*, const char*>>(
      {{"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}, {"pad_token", "padding"}});
  const auto list = [&](const char* key) {
    const Json* value = pairs.find(key);
    return value != nullptr && value->is_array() ? value->array() : Json::Array{};
  };
  const Json::Array tokens = list("tokenizer.ggml.tokens"), types = list("tokenizer.ggml.token_type");
  Json named(Json::Object{});
  for (const auto& [name, use] : names) {
    const Json* id = pairs.find(fmt::format("tokenizer.ggml.{}_token_id", use));
    if (id == nullptr || !id->is_int() || id->integer() < 0 || id->integer() >= std::min(std::ssize(tokens), std::ssize(types)))
      continue;
    const Json &token = tokens[static_cast<std::size_t>(id->integer())], &type = types[static_cast<std::size_t>(id->integer())];
    if (token.is_string() && type.is_int() && (type.integer() == unknown || type.integer() == control || type.integer() == user))
      named.set(name, token);
  }
  return named;
}

}  // namespace

const GgufType& gguf_type(std::string_view name) {
  const auto* const found = std::ranges::find(ggml_types, name, &GgufType::name);
  ensure(found != ggml_types.end(), "ggml has the type");
  return *found;
}

const GgufTensor* Gguf::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &GgufTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

bool is_gguf(const Path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  if (path.extension() == ".gguf") return true;
  const File file = File::open_to_read(path);
  std::string start(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), gguf_magic.size())), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  return start == gguf_magic;
}

Gguf parse_gguf(const ByteSource& file, std::string_view path) {
  Cursor cursor(file, path);
  std::array<char, gguf_magic.size()> start{};
  for (char& byte : start) byte = cursor.number<char>();
  if (std::string_view(start.data(), start.size()) != gguf_magic) cursor.refuse("it does not begin with \"GGUF\"");
  const auto said = cursor.number<std::uint32_t>();
  if (said < oldest_gguf || said > newest_gguf) {
    cursor.refuse((said & 0xffffU) == 0
                      ? "it is big-endian, or of no version"
                      : fmt::format("it is of version {}, but {} and {} are read", said, oldest_gguf, newest_gguf));
  }
  constexpr std::uint64_t tensor_bytes = 8 + 4 + 8 + 4 + 8, pair_bytes = 8 + 4 + 1;
  const std::uint64_t tensors = cursor.count(tensor_bytes, "tensors"), pairs = cursor.count(pair_bytes, "keys");
  Gguf result;
  result.file_bytes = file.size();
  std::unordered_set<std::string> names;
  Json::Object values;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    std::string key = cursor.string();
    if (!names.insert(key).second) cursor.refuse(fmt::format("the key \"{}\" is there twice", key));
    Json value = cursor.value(cursor.number<std::uint32_t>(), key);
    values.emplace_back(std::move(key), std::move(value));
  }
  result.pairs = std::move(values);
  names.clear();
  for (std::uint64_t i = 0; i < tensors; ++i) {
    result.tensors.push_back(read_tensor(cursor));
    const std::string& name = result.tensors.back().name;
    if (!names.insert(name).second) cursor.refuse(fmt::format("the tensor \"{}\" is there twice", name));
  }
  const std::uint64_t alignment = alignment_of(result.pairs, cursor);
  check_places(result, (cursor.at() + alignment - 1) / alignment * alignment, alignment, cursor);
  return result;
}

void lay_out_gguf(Gguf& file) {
  const auto padded = [](std::uint64_t bytes) { return (bytes + usual_alignment - 1) / usual_alignment * usual_alignment; };
  std::uint64_t end = gguf_header_bytes(file).size();
  for (GgufTensor& tensor : file.tensors) {
    ensure(tensor.name.size() <= most_name_bytes, "llama.cpp has room for the name");
    tensor.bytes = bytes_of(tensor.shape, *tensor.type);
    ensure(tensor.bytes > 0, "a tensor's bytes fit 64 bits");
    tensor.offset = end;
    end += padded(tensor.bytes);
  }
  file.file_bytes = end;
}

std::string gguf_header_bytes(const Gguf& file) {
  std::string bytes(gguf_magic);
  put(bytes, newest_gguf);
  put(bytes, std::uint64_t{file.tensors.size()});
  put(bytes, std::uint64_t{file.pairs.object().size()});
  for (const auto& [key, value] : file.pairs.object()) {
    const Value type = type_of(value, Value::u32);
    put_text(bytes, key);
    put(bytes, static_cast<std::uint32_t>(type));
    put_value(bytes, value, type);
  }
  const std::uint64_t start = file.tensors.empty() ? 0 : file.tensors.front().offset;
  for (const GgufTensor& tensor : file.tensors) {
    put_text(bytes, tensor.name);
    put(bytes, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) put(bytes, *extent);
    put(bytes, tensor.type->code);
    put(bytes, tensor.offset - start);
  }
  bytes.resize(static_cast<std::size_t>(round_up(std::ssize(bytes), usual_alignment)), '\0');
  return bytes;
}

Json texts_of_gguf(const Json& pairs) {
  Json texts(Json::Object{});
  for (const auto& [key, file] : {std::pair("tokenizer.chat_template", "chat_template.jinja"),
                                  {"tokenizer.chat_template.tool_use", "additional_chat_templates/tool_use.jinja"}}) {
    if (const Json* text = pairs.find(key); text != nullptr && text->is_string()) texts.set(file, *text);
  }
  if (const Json tokens = named_tokens(pairs); !tokens.object().empty()) {
    Json config(Json::Object{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}});
    for (const auto& [name, token] : tokens.object()) config.set(name, token);
    texts.set("tokenizer_config.json", config.dump(2) + "\n");
  }
  return texts;
}

}  // namespace lockstep::io
