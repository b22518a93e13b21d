#include "lab/against/dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "checkpoint/huggingface/elements.h"
#include "io/folder_entries.h"
#include "io/safetensors.h"

namespace lockstep::lab::against {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t most_json = std::uint64_t{32} << 20;
constexpr std::string_view page = "docs/against.md has the format";

struct NumberKey {
  std::string_view key;
  double Facts::* fact;
  double least = 0, most = std::numeric_limits<double>::max();
  bool whole = false;
};
constexpr double many = 1 << 20;
constexpr std::array<NumberKey, 13> number_keys{{{"learning_rate", &Facts::learning_rate},
                                                 {"previous_learning_rate", &Facts::previous_learning_rate},
                                                 {"eps", &Facts::eps, 0, 1},
                                                 {"weight_decay", &Facts::weight_decay},
                                                 {"clip", &Facts::clip},
                                                 {"loss_scale", &Facts::loss_scale, 1e-30},
                                                 {"step", &Facts::step, 1, 1e15, true},
                                                 {"micro_batches", &Facts::micro_batches, 1, many, true},
                                                 {"dp", &Facts::dp, 1, many, true},
                                                 {"tp", &Facts::tp, 1, many, true},
                                                 {"cp", &Facts::cp, 1, many, true},
                                                 {"pp", &Facts::pp, 1, many, true},
                                                 {"padded_vocabulary", &Facts::padded_vocabulary, 1, 1e9, true}}};

struct WordKey {
  std::string_view key;
  std::string Facts::* fact;
  std::array<std::string_view, 4> words;
};
constexpr std::array<WordKey, 2> word_keys{
    {{"dtype", &Facts::dtype, {"fp32", "tf32", "bf16", "fp16"}}, {"decay", &Facts::decay, {"matrices", "all"}}}};
struct FlagKey {
  std::string_view key;
  bool Facts::* fact;
};
constexpr std::array<FlagKey, 2> flag_keys{{{"clipped", &Facts::clipped}, {"decay_in_gradient", &Facts::decay_in_gradient}}};
/// Members that are no facts of the step.
constexpr std::array<std::string_view, 6> other_keys{"coordinates", "slices", "frozen", "other_weights", "model", "system"};

[[noreturn]] void refuse(const std::string& what, const std::string& problem, std::string_view remedy = page) {
  throw UserError(fmt::format("{}: {}", what, problem), std::string(remedy));
}

/// All that may stand in the JSON.
std::vector<std::string> known_keys() {
  std::vector<std::string> keys{"betas"};
  for (const FlagKey& one : flag_keys) keys.emplace_back(one.key);
  for (const NumberKey& one : number_keys) keys.emplace_back(one.key);
  for (const WordKey& one : word_keys) keys.emplace_back(one.key);
  for (const std::string_view one : other_keys) keys.emplace_back(one);
  return keys;
}

void read_fact(Facts& facts, const std::string& key, const Json& value, const std::string& what) {
  const auto must = [&](bool holds, const std::string& rule) {
    if (!holds) refuse(what, fmt::format("\"{}\" is {}, but must be {}", key, value.dump().substr(0, 80), rule));
  };
  const auto is_number = [](const Json& one, double least, double most) {
    return one.is_number() && one.number() >= least && one.number() <= most;
  };
  if (const auto known = std::ranges::find(number_keys, key, &NumberKey::key); known != number_keys.end()) {
    const bool good = is_number(value, known->least, known->most) && (!known->whole || value.is_int());
    must(good, fmt::format("a {}number of at least {}{}", known->whole ? "whole " : "", known->least,
                           known->most == 1 ? " and at most 1" : ""));
    facts.*known->fact = value.number();
  } else if (const auto word = std::ranges::find(word_keys, key, &WordKey::key); word != word_keys.end()) {
    const bool good = value.is_string() && !value.string().empty() && std::ranges::count(word->words, value.string()) > 0;
    must(good, fmt::format("one of {}", fmt::join(word->words, " ")));
    facts.*word->fact = value.string();
  } else if (const auto flag = std::ranges::find(flag_keys, key, &FlagKey::key); flag != flag_keys.end()) {
    must(value.is_bool(), "true or false");
    facts.*flag->fact = value.boolean();
  } else if (key == "betas") {
    const bool good = value.is_array() && value.array().size() == 2 && is_number(value.array()[0], 0, 0.9999999) &&
                      is_number(value.array()[1], 0, 0.9999999);
    must(good, "two numbers from 0 to 1");
    facts.beta1 = value.array()[0].number();
    facts.beta2 = value.array()[1].number();
  } else {
    const std::string near = nearest_name(key, known_keys());
    refuse(what, fmt::format("\"{}\" is not known", key), near.empty() ? std::string(page) : fmt::format("say \"{}\"", near));
  }
}

Rank rank_of(const Json& json, const std::string& file) {
  Rank rank{file, {}, ""};
  const Json* coordinates = json.find("coordinates");
  if (coordinates == nullptr) return rank;
  if (!coordinates->is_object()) refuse(file, "\"coordinates\" must be an object like {\"dp\": 1}");
  std::vector<std::string> words;
  for (const auto& [key, value] : coordinates->object()) {
    const auto found = std::ranges::find(rank_dimensions, key);
    if (found == rank_dimensions.end() || !value.is_int() || value.integer() < 0)
      refuse(file, fmt::format("\"coordinates\" has {} {}, but they are counts from 0 of dp, tp, cp and pp", key, value.dump()));
    rank.place[static_cast<std::size_t>(found - rank_dimensions.begin())] = value.integer();
    words.push_back(fmt::format("{}={}", key, value.integer()));
  }
  rank.name = fmt::format("{}", fmt::join(words, ", "));
  return rank;
}

/// The places of a dimension of `extent` elements here: [start, stop], or a list of those.
std::vector<std::int64_t> indices_of(const Json& slice, std::int64_t extent, const std::string& what) {
  std::vector<std::int64_t> indices;
  const bool one = slice.is_array() && slice.array().size() == 2 && slice.array()[0].is_int();
  for (const Json& range : one ? Json::Array{slice} : slice.array()) {
    const bool pair = range.is_array() && range.array().size() == 2 && range.array()[0].is_int() && range.array()[1].is_int();
    const std::int64_t first = pair ? range.array()[0].integer() : -1, end = pair ? range.array()[1].integer() : -1;
    if (first < 0 || end < first || end > 1 << 30 || end - first > extent - std::ssize(indices)) {
      refuse(what, fmt::format("the slice {} is no [start, stop] that fits {} elements", slice.dump().substr(0, 80), extent));
    }
    for (std::int64_t i = first; i < end; ++i) indices.push_back(i);
  }
  return indices;
}

std::vector<std::vector<std::int64_t>> slices_of(const Json& slice, const io::SafetensorsEntry& entry, const std::string& what) {
  std::vector<std::vector<std::int64_t>> indices;
  bool fits = slice.array().size() == entry.shape.size();
  for (std::size_t i = 0; fits && i < entry.shape.size(); ++i) {
    indices.push_back(indices_of(slice.array()[i], entry.shape[i], what));
    fits = std::ssize(indices[i]) == entry.shape[i];
  }
  if (!fits) {
    refuse(what, fmt::format("the slice of \"{}\" is {}, but the tensor is {}", entry.name, slice.dump().substr(0, 80),
                             shape_text(entry.shape)));
  }
  return indices;
}

template <class T>
void widen_as(std::span<const std::byte> bytes, Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

Values read_values(const io::File& file, const io::SafetensorsEntry& entry) {
  std::vector<std::byte> bytes(entry.bytes);
  file.read_at(entry.offset, bytes);
  const std::size_t size = io::safetensors_element_size(entry.dtype);
  Values values(entry.bytes / size);
  if (const auto type = checkpoint::huggingface::element_type(entry.dtype)) {
    std::vector<float> floats(values.size());
    checkpoint::huggingface::widen(bytes, *type, floats);
    std::ranges::copy(floats, values.begin());
  } else if (entry.dtype == "F64") {
    widen_as<double>(bytes, values);
  } else if (entry.dtype == "I64") {
    widen_as<std::int64_t>(bytes, values);
  } else if (entry.dtype == "I32") {
    widen_as<std::int32_t>(bytes, values);
  } else {
    refuse(file.path().string(), fmt::format("the tensor \"{}\" is of type {}", entry.name, entry.dtype),
           "numbers are read in F64, F32, F16 and BF16, tokens in I64 and I32");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    refuse(file.path().string(),
           fmt::format("the tensor \"{}\" is not finite at {}: {}", entry.name,
                       place_text(static_cast<std::int64_t>(i), entry.shape), values[i]),
           "dump a step before the first such number; behind it nothing can be compared");
  }
  return values;
}

/// "another \"clip\": 1 and not 2" of the first fact that differs; empty: none does.
std::string difference(const Facts& a, const Facts& b) {
  std::string told;
  const auto look = [&](const auto& keys) {
    for (const auto& one : keys) {
      if (told.empty() && a.*one.fact != b.*one.fact)
        told = fmt::format("another \"{}\" ({} and not {})", one.key, b.*one.fact, a.*one.fact);
    }
  };
  look(number_keys);
  look(word_keys);
  look(flag_keys);
  return told.empty() && !(a == b) ? "other \"betas\"" : told;
}

void read_frozen(Dump& dump, const Json& json, const std::string& what) {
  const Json* frozen = json.find("frozen");
  if (frozen == nullptr) return;
  const bool names = frozen->is_array() && std::ranges::all_of(frozen->array(), [](const Json& one) { return one.is_string(); });
  if (!names) refuse(what, "\"frozen\" must be a list of parameters' names");
  for (const Json& name : frozen->array()) dump.frozen.insert(name.string());
}

/// A rank that the facts count and no file is of.
void check_complete(const Dump& dump) {
  const Facts& facts = dump.facts;
  const std::array<double, 4> sizes{facts.dp, facts.tp, facts.cp, facts.pp};
  const double count = std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
  if (dump.ranks.front().name.empty() || static_cast<double>(dump.ranks.size()) >= count) return;
  throw UserError(fmt::format("the dump has {} ranks' files, but the step had {:.0f} ranks: dp {} x tp {} x cp {} x pp {}",
                              dump.ranks.size(), count, facts.dp, facts.tp, facts.cp, facts.pp),
                  "copy the files of all ranks into one folder");
}

void read_file(Dump& dump, const fs::path& path) {
  const fs::path beside = fs::path(path).replace_extension(".json");
  if (!io::exists(beside))
    refuse(path.string(),
           fmt::format("there is no {} beside it, which says what is known of the step", beside.filename().string()));
  const Json json = Json::parse(io::read_document(beside, most_json), beside.string());
  if (!json.is_object()) refuse(beside.string(), "this is no JSON object");
  const Facts facts = facts_of(json, beside.string());
  if (dump.ranks.empty()) dump.facts = facts;
  if (const std::string differs = difference(dump.facts, facts); !differs.empty())
    refuse(beside.string(), fmt::format("it says {} than {}", differs, dump.ranks.front().file), "ranks of one step do the same");
  if (const Json* model = json.find("model")) dump.model = path.parent_path() / model->string();
  read_frozen(dump, json, beside.string());
  const std::size_t number = dump.ranks.size();
  dump.ranks.push_back(rank_of(json, beside.string()));
  const Json* other = json.find("other_weights");
  dump.ranks.back().other_weights = other != nullptr && other->is_bool() && other->boolean();

  const io::File file = io::File::open_to_read(path);
  const io::SafetensorsHeader header = io::parse_safetensors(io::read_safetensors_start(file), file.size(), path.string());
  const Json* slices = json.find("slices");
  if (slices != nullptr && !slices->is_object()) refuse(beside.string(), "\"slices\" must be an object of tensors' names");
  for (const io::SafetensorsEntry& entry : header.entries) {
    Piece piece{number, entry.shape, {}, read_values(file, entry)};
    if (const Json* slice = slices == nullptr ? nullptr : slices->find(entry.name); slice != nullptr && !slice->is_null())
      piece.indices = slices_of(*slice, entry, beside.string());
    DumpTensor& tensor = dump.tensors[entry.name];
    if (!tensor.pieces.empty() && (tensor.pieces.front().shape.size() != entry.shape.size() || tensor.dtype != entry.dtype))
      refuse(path.string(), fmt::format("the tensor \"{}\" has another type or rank than in other files", entry.name));
    tensor.dtype = entry.dtype;
    tensor.pieces.push_back(std::move(piece));
  }
}

std::optional<std::vector<std::int64_t>> integers(const Dump& dump, std::string_view name, std::vector<std::int64_t>& shape) {
  const auto found = dump.tensors.find(name);
  if (found == dump.tensors.end()) return std::nullopt;
  const DumpTensor& tensor = found->second;
  if (!tensor.dtype.starts_with("I"))
    refuse(std::string(name), fmt::format("it is of type {}", tensor.dtype), "write I64 or I32");
  const std::vector<std::int64_t> own = tensor.shape();
  if (own.size() != 2 || (!shape.empty() && own != shape))
    refuse(std::string(name), fmt::format("it is {}, but must be {}", shape_text(own),
                                          shape.empty() ? "[rows, positions]" : shape_text(shape) + " as the tokens"));
  shape = own;
  for (const Piece& piece : tensor.pieces) {
    if (piece.indices.empty() && piece.shape != own)
      refuse(std::string(name),
             fmt::format("it is {} in {}, but {} in all", shape_text(piece.shape), dump.ranks[piece.rank].file, shape_text(own)));
  }
  const std::optional<Values> whole = tensor.whole(own);
  if (!whole) refuse(std::string(name), "the ranks' files do not have all of it", "write one file for each rank of the step");
  for (const Piece& piece : tensor.pieces) {
    const std::vector<std::int64_t> places = piece.places(own);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (piece.values[i] == (*whole)[static_cast<std::size_t>(places[i])]) continue;
      refuse(std::string(name),
             fmt::format("two ranks have another one at {}; one of them is {}", place_text(places[i], own),
                         dump.ranks[piece.rank].name),
             "ranks that share a sample must be given the same tokens");
    }
  }
  return std::vector<std::int64_t>(whole->begin(), whole->end());
}

}  // namespace

std::vector<std::int64_t> Piece::places(const std::vector<std::int64_t>& whole) const {
  std::vector<std::int64_t> all(values.size());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  if (indices.empty()) return all;
  for (std::int64_t& place : all) {
    std::int64_t left = place, stride = 1, sum = 0;
    for (std::size_t d = whole.size(); d-- > 0; stride *= whole[d], left /= shape[d])
      sum += indices[d][static_cast<std::size_t>(left % shape[d])] * stride;
    place = sum;
  }
  return all;
}

std::vector<std::int64_t> DumpTensor::shape() const {
  std::vector<std::int64_t> extents = pieces.front().shape;
  for (const Piece& piece : pieces) {
    for (std::size_t d = 0; d < piece.indices.size() && d < extents.size(); ++d) {
      for (const std::int64_t index : piece.indices[d]) extents[d] = std::max(extents[d], index + 1);
    }
  }
  return extents;
}

std::optional<Values> DumpTensor::whole(const std::vector<std::int64_t>& shape) const {
  const std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  std::size_t there = 0;
  for (const Piece& piece : pieces) there += piece.values.size();
  if (static_cast<std::size_t>(count) > there) return std::nullopt;
  Values all(static_cast<std::size_t>(count), std::numeric_limits<double>::quiet_NaN());
  for (const Piece& piece : pieces) {
    const std::vector<std::int64_t> places = piece.places(shape);
    for (std::size_t i = 0; i < places.size(); ++i) {
      double& value = all[static_cast<std::size_t>(places[i])];
      if (std::isnan(value)) value = piece.values[i];
    }
  }
  if (std::ranges::any_of(all, [](double value) { return std::isnan(value); })) return std::nullopt;
  return all;
}

Facts facts_of(const Json& json, const std::string& what) {
  Facts facts;
  for (const auto& [key, value] : json.object()) {
    if (std::ranges::count(other_keys, key) == 0 && !value.is_null()) read_fact(facts, key, value, what);
  }
  return facts;
}

Dump read_dump(const io::Path& path) {
  if (!io::exists(path)) refuse(path.string(), "there is no such file or folder", "check the path");
  Dump dump;
  const bool folder = io::is_folder(path);
  dump.model = (folder ? path : path.parent_path()) / "model";
  std::vector<fs::path> files{path};
  if (folder) {
    std::error_code failed;
    files = io::entries_of(path, failed);
    std::erase_if(files, [](const fs::path& file) { return file.extension() != ".safetensors"; });
    std::ranges::sort(files);
    if (files.empty()) refuse(path.string(), "there is no safetensors file in it");
  }
  for (const fs::path& file : files) read_file(dump, file);
  for (std::size_t i = 0; i < dump.ranks.size(); ++i) {
    const auto same = [&](const Rank& rank) { return rank.name == dump.ranks[i].name; };
    if (files.size() > 1 && (dump.ranks[i].name.empty() || std::ranges::count_if(dump.ranks, same) > 1))
      refuse(dump.ranks[i].file, "each rank's file says \"coordinates\" of its own");
  }
  check_complete(dump);
  return dump;
}

Batch batch_of(const Dump& dump, const arch::ModelConfig& config) {
  Batch batch;
  std::vector<std::int64_t> shape;
  const auto tokens = integers(dump, "tokens", shape);
  if (!tokens) refuse("tokens", "the dump does not have them", "write the tokens that the step read as a tensor \"tokens\"");
  batch.rows = shape[0];
  batch.columns = shape[1];
  batch.tokens = *tokens;
  const auto targets = integers(dump, "targets", shape), documents = integers(dump, "documents", shape),
             positions = integers(dump, "positions", shape);
  const bool learned = config.position == arch::PositionKind::learned;
  batch.targets = targets.value_or(std::vector<std::int64_t>(batch.tokens.size(), -1));
  batch.documents = documents.value_or(std::vector<std::int64_t>(batch.tokens.size(), 0));
  for (std::int64_t i = 0; i < std::ssize(batch.tokens); ++i) batch.positions.push_back(i % batch.columns);
  if (positions) batch.positions = *positions;
  const auto check = [&](const std::string& name, const std::vector<std::int64_t>& values, std::int64_t least, std::int64_t end) {
    const auto bad = std::ranges::find_if(values, [&](std::int64_t one) { return one < least || one >= end; });
    if (bad == values.end()) return;
    refuse(name, fmt::format("{} at {} is none of the model's {}", *bad, place_text(bad - values.begin(), shape), end),
           "dump the model and the tokens of one step");
  };
  check("tokens", batch.tokens, 0, config.vocabulary);
  check("targets", batch.targets, std::numeric_limits<std::int64_t>::min(), config.vocabulary);
  check("positions", batch.positions, 0, learned ? config.block_size : std::int64_t{1} << 30);
  return batch;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string place_text(std::int64_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) place[d] = element % shape[d];
  return shape_text(place);
}

}  // namespace lockstep::lab::against
