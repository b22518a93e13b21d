#include "checkpoint/huggingface/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "checkpoint/problems.h"

namespace lockstep::checkpoint::huggingface {
namespace names = arch::huggingface;
namespace {

constexpr std::string_view another_config = "take the config.json and the weights of one and the same model";

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

}  // namespace

Weights::Weights(const io::Path& path) : folder_(path), model_(names::model_from_json(folder_.config(), folder_.config_path())) {
  if (model_.family == names::Family::rasbt && folder_.find("trf_blocks.0.att.qkv.weight") != nullptr)
    model_.family = names::Family::rasbt_fused;
  settle_head();
  table_ = names::tensor_table(model_.config, model_.family);
  match_tensors();
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
      const std::vector<std::int64_t> wanted = extents_of(part.shape);
      if (stored == nullptr) {
        complain(
            part.name, fmt::format("{} is missing", part.shape.text()),
            part.name == head ? "a head that is the embedding has \"tie_word_embeddings\": true in config.json" : another_config);
        continue;
      }
      used.insert(stored->entry.name);
      const std::optional<ElementType> type = element_type(stored->entry.dtype);
      if (stored->entry.shape != wanted) {
        complain(stored->entry.name,
                 fmt::format("has the shape [{}], but by {} it is {}", fmt::join(stored->entry.shape, ", "), config_file,
                             part.shape.text()),
                 another_config);
      } else if (!type) {
        complain(stored->entry.name, fmt::format("is of type {}", stored->entry.dtype), "weights are read in F32, F16 and BF16");
      } else {
        parts.push_back({part, stored->file, stored->entry.offset, *type});
      }
    }
  }
  for (const std::string& name : folder_.names()) {
    if (!used.contains(name) && !names::is_buffer(name)) complain(name, "is none of this model's", another_config);
  }
  if (!problems.empty()) throw_first(std::move(problems));
}

/// Pieces begin and end at rows where they can: a transposed tensor is read by columns.
void Weights::add_pieces(std::vector<Piece>& pieces, std::size_t parameter, std::int64_t first, std::int64_t count,
                         const Tensor& to) const {
  const std::int64_t columns = columns_of(table_.parameters[parameter].shape);
  const std::int64_t rows = std::max<std::int64_t>(1, elements_of_piece / columns);
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t end = std::min(first + count, (at / columns + rows) * columns);
    pieces.push_back({parameter, at, end - at, to ? to.flat(at - first, end - at) : Tensor{}});
    at = end;
  }
}

void Weights::read_model(std::span<const HeldTensor> weights, cpu::Team& team) const {
  std::vector<Problem> problems;
  std::vector<Piece> pieces;
  for (const HeldTensor& held : weights) {
    const auto& [name, shape, dtype] = held.tensor;
    const auto found = std::find_if(table_.parameters.begin(), table_.parameters.end(),
                                    [&, &wanted = name](const auto& parameter) { return parameter.name == wanted; });
    const bool known = found != table_.parameters.end();
    const bool fits = known && (found->shape == shape || (found->positions && shape.rank() == 2 && shape[1] == found->shape[1] &&
                                                          shape[0] <= found->shape[0]));
    if (!fits) {
      problems.push_back({fmt::format("{} is of another model: \"{}\" {} is {}", folder_.path().string(), name, shape.text(),
                                      known ? found->shape.text() + " there" : "not there"),
                          "use the model's own configuration"});
      continue;
    }
    const auto index = static_cast<std::size_t>(found - table_.parameters.begin());
    for (const HeldRange& range : held.ranges) add_pieces(pieces, index, range.first, range.values.elements(), range.values);
  }
  if (!problems.empty()) throw_first(std::move(problems));
  std::vector<Worker> workers(static_cast<std::size_t>(team.size()));
  team.for_each(std::ssize(pieces), [&](std::int64_t i, int worker) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    Worker& own = workers[static_cast<std::size_t>(worker)];
    if (piece.to.dtype == DType::f32) return gather(piece.parameter, piece.first, elements<float>(piece.to), own.scratch);
    ensure(piece.to.dtype == DType::bf16, "weights are fp32 or bf16");
    own.values.resize(static_cast<std::size_t>(piece.count));
    gather(piece.parameter, piece.first, own.values, own.scratch);
    static_cast<void>(round_to(own.values, ElementType::bf16, elements<std::byte>(piece.to)));
  });
}

void Weights::for_each_piece(cpu::Team& team, const Take& take) const {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < table_.parameters.size(); ++i) add_pieces(pieces, i, 0, table_.parameters[i].shape.elements(), {});
  std::vector<Worker> workers(static_cast<std::size_t>(team.size()));
  team.for_each(std::ssize(pieces), [&](std::int64_t i, int worker) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    Worker& own = workers[static_cast<std::size_t>(worker)];
    own.values.resize(static_cast<std::size_t>(piece.count));
    gather(piece.parameter, piece.first, own.values, own.scratch);
    take(piece.parameter, piece.first, own.values);
  });
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
