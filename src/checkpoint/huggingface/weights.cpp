#include "checkpoint/huggingface/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "arch/gguf.h"
#include "base/error.h"
#include "checkpoint/huggingface/adapter.h"
#include "checkpoint/not_finite.h"
#include "checkpoint/problems.h"
#include "comm/agreement.h"

namespace lockstep::checkpoint::huggingface {
namespace names = arch::huggingface;
namespace {

constexpr std::string_view another_copy = "take another copy of the model: no text can be read with this one";
constexpr std::string_view another_config = "take the config.json and the weights of one and the same model";
constexpr const char* another_file = "take another copy of the file, or the model from its Hugging Face folder";

std::vector<std::int64_t> extents_of(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int dim = 0; dim < shape.rank(); ++dim) extents.push_back(shape[dim]);
  return extents;
}

/// What a thread needs to read pieces.
struct Worker {
  Scratch scratch;
  std::vector<float> values;
};

bool same_bytes(const Folder::Stored& a, const Folder::Stored& b) {
  if (a.entry.dtype != b.entry.dtype || a.entry.shape != b.entry.shape) return false;
  std::vector<std::byte> left, right;
  for (std::uint64_t done = 0; done < a.entry.bytes; done += left.size()) {
    left.resize(std::min<std::uint64_t>(a.entry.bytes - done, 4 * piece_bytes));
    right.resize(left.size());
    a.file->read_at(a.entry.offset + done, left);
    b.file->read_at(b.entry.offset + done, right);
    if (left != right) return false;
  }
  return true;
}

/// A text about a GGUF file with its own names of the keys and tensors in quotes.
std::string in_file_words(const arch::gguf::Architecture& architecture, std::string_view text) {
  std::string said;
  bool quoted = false;
  for (std::size_t at = 0; at <= text.size(); quoted = !quoted) {
    const std::size_t end = std::min(text.find('"', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const auto key = std::ranges::find(architecture.keys, word, &arch::gguf::Architecture::Key::config);
    const auto tensor = architecture.gguf_name(word);
    if (quoted && key != architecture.keys.end()) {
      said += fmt::format("{}.{}", architecture.name, key->gguf);
    } else {
      said += quoted && tensor ? tensor->name : std::string(word);
    }
    if (end < text.size()) said += '"';
    at = end + 1;
  }
  return said;
}

/// What call() gives. What it refuses of a GGUF file is said in the file's words, not in those of a config.json.
template <class Call>
auto told_of(const Folder& folder, const Call& call) {
  try {
    return call();
  } catch (const UserError& error) {
    if (!folder.is_gguf()) throw;
    const arch::gguf::Architecture& architecture = arch::gguf::architecture_of_config(folder.config(), folder.config_path());
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) {
      problem.message = in_file_words(architecture, problem.message);
      if (problem.remedy.find(config_file) != std::string::npos) problem.remedy = another_file;
    }
    throw UserError(std::move(problems));
  }
}

}  // namespace

Weights::Weights(const io::Path& path)
    : folder_(path), model_(told_of(folder_, [&] { return names::model_from_json(folder_.config(), folder_.config_path()); })) {
  if (model_.family == names::Family::rasbt && folder_.find("trf_blocks.0.att.qkv.weight") != nullptr)
    model_.family = names::Family::rasbt_fused;
  if (io::exists(folder_.path() / adapter_config_file)) {
    warnings_.push_back(
        fmt::format("{0}: the adapter beside the weights ({1}) is left out, which transformers adds: --adapter {0}",
                    folder_.path().string(), adapter_config_file));
  }
  settle_head();
  table_ = names::tensor_table(model_.config, model_.family);
  told_of(folder_, [&] { match_tensors(); });
}

/// A model that was saved without its head lacks the prefix.
const Folder::Stored* Weights::find(std::string_view name) const {
  if (const Folder::Stored* stored = folder_.find(name)) return stored;
  const std::string_view prefix = names::optional_prefix(model_.family);
  return !prefix.empty() && name.starts_with(prefix) ? folder_.find(name.substr(prefix.size())) : nullptr;
}

/// As transformers does it: where both matrices of a tied model are stored and differ, they are not tied.
void Weights::settle_head() {
  const Folder::Stored* table = find(names::token_table_name(model_.family));
  const Folder::Stored* head = find(names::head_name(model_.family));
  if (!model_.config.tied || table == nullptr || head == nullptr || same_bytes(*table, *head)) return;
  model_.config.tied = false;
  warnings_.push_back(fmt::format("{}: \"tie_word_embeddings\" is true, but \"{}\" and \"{}\" differ: they are taken as two",
                                  folder_.config_path(), table->entry.name, head->entry.name));
}

/// Where the part is; what is wrong with it is added to the problems.
std::optional<StoredPart> Weights::match(const names::Part& published, const Folder::Stored& stored,
                                         std::vector<Problem>& problems) const {
  const auto complain = [&](const std::string& what, std::string_view remedy) {
    problems.push_back(
        {fmt::format("{}: the tensor \"{}\" {}", folder_.path().string(), stored.entry.name, what), std::string(remedy)});
  };
  const names::Part part = stored.rows ? as_rows(published) : published;
  const std::optional<ElementType> type = element_type(stored.entry.dtype);
  if (stored.entry.shape != extents_of(part.shape)) {
    complain(fmt::format("has the shape [{}], but by {} it is {}", fmt::join(stored.entry.shape, ", "),
                         stored.rows ? "its keys" : config_file, part.shape.text()),
             another_config);
  } else if (!type) {
    complain(fmt::format("is of type {}", stored.entry.dtype),
             "weights are read in F32, F16 and BF16, and in GGUF files in Q8_0");
  } else {
    return StoredPart{part, stored.file, stored.entry.offset, *type, stored.paired ? model_.config.head_size : 0, stored.added};
  }
  return std::nullopt;
}

void Weights::match_tensors() {
  std::vector<Problem> problems;
  const auto complain = [&](std::string_view name, const std::string& what, std::string_view remedy) {
    problems.push_back({fmt::format("{}: the tensor \"{}\" {}", folder_.path().string(), name, what), std::string(remedy)});
  };
  std::unordered_set<std::string> used;
  const std::string head(names::head_name(model_.family)), tokens(names::token_table_name(model_.family));
  if (model_.config.tied) used.insert(head);
  for (const names::Parameter& parameter : table_.parameters) {
    std::vector<StoredPart>& parts = parts_.emplace_back();
    for (const names::Part& part : parameter.parts) {
      const Folder::Stored* stored = find(part.name);
      if (stored == nullptr && model_.config.tied && part.name == tokens) stored = find(head);
      if (stored == nullptr) {
        complain(
            part.name, fmt::format("{} is missing", part.shape.text()),
            part.name == head ? "a head that is the embedding has \"tie_word_embeddings\": true in config.json" : another_config);
        continue;
      }
      used.insert(stored->entry.name);
      if (const std::optional<StoredPart> found = match(part, *stored, problems)) parts.push_back(*found);
    }
  }
  for (const std::string& name : folder_.names()) {
    if (!used.contains(name) && !names::is_buffer(name)) complain(name, "is none of this model's", another_config);
  }
  if (!problems.empty()) throw_first(std::move(problems));
}

/// Pieces begin and end at rows where they can: a transposed tensor is read by columns.
void Weights::add_pieces(std::vector<Piece>& pieces, std::size_t parameter, std::int64_t first, std::int64_t count) const {
  const std::int64_t columns = columns_of(table_.parameters[parameter].shape);
  const std::int64_t rows = std::max<std::int64_t>(1, elements_of_piece / columns);
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t end = std::min(first + count, (at / columns + rows) * columns);
    pieces.push_back({parameter, at, end - at});
    at = end;
  }
}

class Weights::Ranges final : public RangeReader {
 public:
  /// `indices`: which parameter each name is.
  Ranges(const Weights& weights, std::unordered_map<std::string, std::size_t> indices)
      : weights_(weights), indices_(std::move(indices)) {}

  void fill(std::span<const HeldTensor> tensors, Team& team) override {
    attempts_.run([&] { fill_parts(tensors, team); });
  }
  void finish(comm::Communicator& ranks) override {
    attempts_.meet(ranks);
    not_finite_.refuse(ranks, weights_.folder_.path().string(), std::string(another_copy));
  }

 private:
  struct Part {
    Piece piece;  ///< what is read: whole rows of the parameter where the range takes some columns of them
    std::int64_t column, columns;
    Tensor to;
  };

  void fill_parts(std::span<const HeldTensor> tensors, Team& team) {
    std::vector<Part> parts;
    for (const HeldTensor& held : tensors) {
      for (const HeldRange& range : held.ranges) {
        check_range(range, held.tensor);
        add_parts(parts, indices_.at(held.tensor.name), range);
      }
    }
    std::vector<Worker> workers(static_cast<std::size_t>(team.size()));
    team.for_each(std::ssize(parts), [&](std::int64_t i, int worker) {
      fill_part(parts[static_cast<std::size_t>(i)], workers[static_cast<std::size_t>(worker)]);
    });
  }

  void add_parts(std::vector<Part>& parts, std::size_t parameter, const HeldRange& range) const {
    std::vector<Piece> pieces;
    if (range.stride == 0) {
      weights_.add_pieces(pieces, parameter, range.first, range.values.elements());
      for (const Piece& piece : pieces)
        parts.push_back({piece, 0, piece.count, range.values.flat(piece.first - range.first, piece.count)});
      return;
    }
    const std::int64_t column = range.first % range.stride, start = range.first - column;
    weights_.add_pieces(pieces, parameter, start, range.values.rows() * range.stride);
    for (const Piece& piece : pieces) {
      const std::int64_t row = (piece.first - start) / range.stride, rows = piece.count / range.stride;
      parts.push_back({piece, column, range.values.columns(), range.values.slice_rows(row, rows)});
    }
  }

  void look(std::size_t parameter, std::span<const float> values) {
    not_finite_.look(weights_.parameters()[parameter].name, std::as_bytes(values), DType::f32);
  }

  void fill_part(const Part& part, Worker& own) {
    const Piece& piece = part.piece;
    const bool whole = part.columns == piece.count;
    if (whole && part.to.dtype == DType::f32) {
      weights_.gather(piece.parameter, piece.first, elements<float>(part.to), own.scratch);
      return look(piece.parameter, elements<float>(part.to));
    }
    own.values.resize(static_cast<std::size_t>(piece.count));
    weights_.gather(piece.parameter, piece.first, own.values, own.scratch);
    look(piece.parameter, own.values);
    const std::int64_t stride = whole ? piece.count : piece.count / part.to.rows();
    const std::span<std::byte> out = elements<std::byte>(part.to);
    for (std::int64_t row = 0; row * stride < piece.count; ++row) {
      const std::size_t bytes = static_cast<std::size_t>(part.columns) * size_of(part.to.dtype);
      store(std::span(own.values)
                .subspan(static_cast<std::size_t>(row * stride + part.column), static_cast<std::size_t>(part.columns)),
            part.to.dtype, out.subspan(static_cast<std::size_t>(row) * bytes, bytes));
    }
  }

  static void store(std::span<const float> values, DType type, std::span<std::byte> to) {
    ensure(type == DType::f32 || type == DType::bf16, "weights are fp32 or bf16");
    static_cast<void>(round_to(values, type == DType::f32 ? ElementType::f32 : ElementType::bf16, to));
  }

  const Weights& weights_;
  std::unordered_map<std::string, std::size_t> indices_;
  NotFinite not_finite_;
  comm::Attempts attempts_;
};

std::unique_ptr<RangeReader> Weights::read_model(std::span<const LogicalTensor> weights) const {
  std::vector<Problem> problems;
  std::unordered_map<std::string, std::size_t> indices;
  for (const auto& [name, shape, dtype] : weights) {
    const auto found = std::find_if(table_.parameters.begin(), table_.parameters.end(),
                                    [&, &wanted = name](const auto& parameter) { return parameter.name == wanted; });
    const bool known = found != table_.parameters.end();
    const bool fits = known && (found->shape == shape || (found->positions && shape.rank() == 2 && shape[1] == found->shape[1] &&
                                                          shape[0] <= found->shape[0]));
    if (fits) {
      indices.emplace(name, static_cast<std::size_t>(found - table_.parameters.begin()));
      continue;
    }
    problems.push_back({fmt::format("{} is of another model: \"{}\" {} is {}", folder_.path().string(), name, shape.text(),
                                    known ? found->shape.text() + " there" : "not there"),
                        "use the model's own configuration"});
  }
  if (!problems.empty()) throw_first(std::move(problems));
  return std::make_unique<Ranges>(*this, std::move(indices));
}

void Weights::for_each_piece(Team& team, const Take& take) const {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < table_.parameters.size(); ++i) add_pieces(pieces, i, 0, table_.parameters[i].shape.elements());
  NotFinite not_finite;
  std::vector<Worker> workers(static_cast<std::size_t>(team.size()));
  team.for_each(std::ssize(pieces), [&](std::int64_t i, int worker) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    Worker& own = workers[static_cast<std::size_t>(worker)];
    own.values.resize(static_cast<std::size_t>(piece.count));
    gather(piece.parameter, piece.first, own.values, own.scratch);
    not_finite.look(table_.parameters[piece.parameter].name, std::as_bytes(std::span(own.values)), DType::f32);
    take(piece.parameter, piece.first, own.values);
  });
  not_finite.refuse(folder_.path().string(), std::string(another_copy));
}

/// Elements [first, first + to.size()) of a parameter, from the parts that they are in.
void Weights::gather(std::size_t parameter, std::int64_t first, std::span<float> to, Scratch& scratch) const {
  const std::int64_t end = first + std::ssize(to);
  for (const StoredPart& stored : parts_[parameter]) {
    const std::int64_t part_first = stored.part.first_row * stored.columns(), part_end = part_first + stored.elements();
    const std::int64_t from = std::max(first, part_first), until = std::min(end, part_end);
    if (from >= until) continue;
    stored.read(from - part_first, to.subspan(static_cast<std::size_t>(from - first), static_cast<std::size_t>(until - from)),
                scratch);
  }
}

}  // namespace lockstep::checkpoint::huggingface
