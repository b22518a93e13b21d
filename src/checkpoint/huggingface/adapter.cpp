#include "checkpoint/huggingface/adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "arch/adapter.h"
#include "arch/config_json.h"
#include "arch/huggingface/adapter.h"
#include "arch/huggingface/config_json.h"
#include "checkpoint/huggingface/elements.h"
#include "checkpoint/huggingface/import.h"
#include "checkpoint/not_finite.h"
#include "checkpoint/problems.h"
#include "comm/agreement.h"
#include "data/pattern/regex.h"
#include "io/new_folder.h"
#include "io/safetensors.h"

namespace lockstep::checkpoint::huggingface {
namespace names = arch::huggingface;
namespace {

using Tensors = std::map<std::string, AdapterValues, std::less<>>;

/// Reads from memory.
class FromMemory final : public RangeReader {
 public:
  explicit FromMemory(const Tensors& tensors) : tensors_(tensors) {}
  void fill(std::span<const HeldTensor> tensors, Team& /*team*/) override {
    for (const HeldTensor& held : tensors) {
      const std::vector<float>& all = tensors_.find(held.tensor.name)->second.values;
      for (const HeldRange& range : held.ranges) {
        check_range(range, held.tensor);
        for_each_run(range, [&](std::int64_t first, const Tensor& values) {
          const auto from = std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(values.elements()));
          const ElementType type = values.dtype == DType::bf16 ? ElementType::bf16 : ElementType::f32;
          static_cast<void>(round_to(from, type, elements<std::byte>(values)));
        });
      }
    }
  }
  void finish(comm::Communicator& /*ranks*/) override {}

 private:
  const Tensors& tensors_;
};

/// Each tensor by the reader that has it, the adapter's last; without one it stays as it is.
class Parted final : public RangeReader {
 public:
  Parted(std::unique_ptr<RangeReader> base, std::unique_ptr<RangeReader> adapter,
         std::function<bool(std::string_view)> in_adapter)
      : base_(std::move(base)), adapter_(std::move(adapter)), in_adapter_(std::move(in_adapter)) {}
  void fill(std::span<const HeldTensor> tensors, Team& team) override {
    for (const HeldTensor& held : tensors) {
      const std::span one(&held, 1);
      if (!is_adapter_tensor(held.tensor.name)) base_->fill(one, team);
      if (adapter_ && in_adapter_(held.tensor.name)) adapter_->fill(one, team);
    }
  }
  void finish(comm::Communicator& ranks) override {
    base_->finish(ranks);
    if (adapter_) adapter_->finish(ranks);
  }

 private:
  std::unique_ptr<RangeReader> base_, adapter_;
  std::function<bool(std::string_view)> in_adapter_;
};

constexpr std::string_view another_adapter =
    "take both files of one adapter; one that is beside other matrices, or some blocks alone, is merged into its model with PEFT "
    "(merge_and_unload)";

/// The files of an adapter, open.
struct OpenAdapter {
  explicit OpenAdapter(const io::Path& path)
      : config_path((path / adapter_config_file).string()),
        weights_path((path / adapter_weights_file).string()),
        config(Json::parse(io::read_file(config_path), config_path)),
        file(io::File::open_to_read(weights_path)),
        header(io::parse_safetensors(io::read_safetensors_start(file), file.size(), weights_path)) {}
  AdapterValues read(const io::SafetensorsEntry& entry) const {
    const std::optional<ElementType> type = element_type(entry.dtype);
    if (!type || *type == ElementType::q8_0) {
      throw UserError(fmt::format("{}: the tensor \"{}\" is of type {}", weights_path, entry.name, entry.dtype),
                      "adapters are read in F32, F16 and BF16");
    }
    std::vector<std::byte> bytes(entry.bytes);
    file.read_at(entry.offset, bytes);
    AdapterValues read{Shape{entry.shape[0], entry.shape[1]}, {}};
    read.values.resize(static_cast<std::size_t>(read.shape.elements()));
    widen(bytes, *type, read.values);
    return read;
  }
  std::string config_path, weights_path;
  Json config;
  io::File file;
  io::SafetensorsHeader header;
};

void demand_files(const io::Path& path) {
  for (const std::string_view name : {adapter_config_file, adapter_weights_file}) {
    if (io::exists(path / name)) continue;
    throw UserError(fmt::format("{}: there is no {}", path.string(), name),
                    "an adapter is a folder as PEFT's save_pretrained() writes it, or lockstep convert");
  }
}

/// As PEFT asks it (re.fullmatch, peft/tuners/tuners_utils.py: check_target_module_exists). There ^ at the beginning and $ at the
/// end change nothing.
std::optional<bool> matches_path(const std::string& pattern, std::string_view path) {
  std::string_view inner = pattern;
  if (inner.starts_with('^')) inner.remove_prefix(1);
  if (inner.ends_with('$') && !inner.ends_with("\\$")) inner.remove_suffix(1);
  try {
    const std::string text = std::string(path) + '\n';  // no path has it, so a match that takes it takes all
    data::pattern::MatchScratch scratch;
    const auto found = data::pattern::Regex(fmt::format("(?:{})\n", inner)).find(text, 0, scratch);
    return found.begin == 0 && found.end == text.size();
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// The matrices that the tensors of a file are beside: those of the first block are looked for.
arch::AdapterTargets targets_in(const io::SafetensorsHeader& header, arch::ModelConfig model, names::Family family) {
  arch::AdapterTargets found = 0;
  for (unsigned target = 0; target < static_cast<unsigned>(arch::AdapterTarget::count); ++target) {
    model.adapter.targets = static_cast<arch::AdapterTargets>(1U << target);
    const std::vector<names::AdapterTensor> tensors = names::adapter_tensors(model, family);
    if (!tensors.empty() && header.find(tensors.front().published) != nullptr) found |= model.adapter.targets;
  }
  return found;
}

AdapterValues read_whole(const Reader& reader, const std::string& name) {
  const StoredTensor* const stored = reader.find(name);
  ensure(stored != nullptr, "the checkpoint has the tensors of its model");
  AdapterValues all{stored->tensor.shape, {}};
  const auto count = static_cast<std::size_t>(all.shape.elements());
  all.values.resize(count);
  std::vector<std::byte> bytes(count * size_of(stored->tensor.dtype));
  Tensor raw;
  raw.data = bytes.data();
  raw.shape = Shape{static_cast<std::int64_t>(count)};
  raw.dtype = stored->tensor.dtype;
  if (reader.read_range(name, {0, raw}) != stored->checksum) {
    throw UserError(
        fmt::format("{}: tensor \"{}\" does not match its checksum: its bytes are damaged", reader.folder().string(), name),
        use_another(reader.folder()));
  }
  widen(bytes, raw.dtype == DType::bf16 ? ElementType::bf16 : ElementType::f32, all.values);
  return all;
}

}  // namespace

bool is_adapter_tensor(std::string_view name) { return name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight"); }

AdapterFolder::AdapterFolder(const io::Path& path, const arch::ModelConfig& model) {
  demand_files(path);
  const OpenAdapter files(path);
  if (const Json* dropout = files.config.find("lora_dropout");
      dropout != nullptr && dropout->is_number() && dropout->number() > 0)
    warnings_.push_back(fmt::format("{}: lora_dropout is {}, and training drops nothing", files.config_path, dropout->dump()));
  const names::Family family = names::family_of(model);
  adapter_ = names::adapter_from_config(files.config, family, model.tied, files.config_path);
  arch::ModelConfig adapted = model;
  adapted.adapter = adapter_;
  adapted.adapter.targets = adapter_.targets = targets_in(files.header, adapted, family);
  const std::vector<names::AdapterTensor> tensors = names::tensors_of_files(adapted, family);
  std::vector<names::AdapterTensor> there;
  std::ranges::copy_if(tensors, std::back_inserter(there),
                       [&](const names::AdapterTensor& tensor) { return files.header.find(tensor.published) != nullptr; });
  std::vector<Problem> problems =
      names::check_targets(files.config, family, there, model.layers, files.config_path, matches_path);
  const auto complain = [&](std::string_view name, const std::string& what) {
    problems.push_back({fmt::format("{}: the tensor \"{}\" {}", files.weights_path, name, what), std::string(another_adapter)});
  };
  NotFinite not_finite;
  for (const names::AdapterTensor& tensor : tensors) {
    const io::SafetensorsEntry* const entry = files.header.find(tensor.published);
    if (entry == nullptr) {
      complain(tensor.published, fmt::format("{} is missing: every block has the same adapters", tensor.shape.text()));
    } else if (entry->shape != std::vector<std::int64_t>{tensor.shape[0], tensor.shape[1]}) {
      complain(tensor.published, fmt::format("has the shape [{}], but for this model it is {}", fmt::join(entry->shape, ", "),
                                             tensor.shape.text()));
    } else {
      AdapterValues read = files.read(*entry);
      not_finite.look(tensor.published, std::as_bytes(std::span(read.values)), DType::f32);
      const auto same = tensors_.find(tensor.name);
      if (same != tensors_.end() && same->second.values != read.values)
        complain(tensor.published, "differs from the token table, but they are one matrix in this model");
      tensors_.insert_or_assign(tensor.name, std::move(read));
    }
  }
  std::set<std::string_view> known;
  for (const names::AdapterTensor& tensor : tensors) known.insert(tensor.published);
  for (const io::SafetensorsEntry& entry : files.header.entries) {
    if (!known.contains(entry.name)) complain(entry.name, "is none of this model's adapters");
  }
  if (!problems.empty()) throw_first(std::move(problems));
  not_finite.refuse(files.weights_path, "take another copy of the adapter");
}

std::unique_ptr<RangeReader> AdapterFolder::read_model(std::span<const LogicalTensor> weights) const {
  for (const LogicalTensor& wanted : weights) {
    const auto found = tensors_.find(wanted.name);
    ensure(found != tensors_.end() && found->second.shape == wanted.shape, "the model has the adapter's own ranks and targets");
  }
  return std::make_unique<FromMemory>(tensors_);
}

std::unique_ptr<RangeReader> AdaptedSource::read_model(std::span<const LogicalTensor> weights) const {
  std::vector<LogicalTensor> model, adapters;
  const auto in_adapter = [adapter = adapter_](std::string_view name) {
    return adapter != nullptr ? adapter->has(name) : is_adapter_tensor(name);
  };
  for (const LogicalTensor& tensor : weights) {
    if (in_adapter(tensor.name)) adapters.push_back(tensor);
    if (!is_adapter_tensor(tensor.name)) model.push_back(tensor);  // the base has those too that the adapter replaces
  }
  return std::make_unique<Parted>(base_.read_model(model), adapter_ == nullptr ? nullptr : adapter_->read_model(adapters),
                                  in_adapter);
}

AdapterMerge::AdapterMerge(const Reader& reader, const arch::ModelConfig& model)
    : scale_(model.adapter.used() ? model.adapter.scale() : 0) {
  const std::vector<arch::AdapterSite> sites = arch::adapter_sites(model, arch::whole_dims(model));
  const std::vector<arch::UnitSpec> units = arch::unit_table(model);
  const arch::UnitMap map = arch::unit_map(model);
  for (std::size_t block = 0; block < map.adapters.size(); ++block) {
    const auto unit = [&](UnitIndex index) -> const arch::UnitSpec& { return units[static_cast<std::size_t>(index.value)]; };
    const arch::UnitSpec &own = unit(map.blocks[block]), &adapters = unit(map.adapters[block]);
    for (const arch::AdapterSite& site : sites) {
      besides_[arch::parameter_of(own, site.matrix).name].push_back(
          {site.rows.first, read_whole(reader, arch::parameter_of(adapters, site.a).name),
           read_whole(reader, arch::parameter_of(adapters, site.b).name)});
    }
  }
}

void AdapterMerge::add(const std::string& matrix, std::int64_t first, std::span<float> values) const {
  const auto found = besides_.find(matrix);
  if (found == besides_.end()) return;
  for (const Beside& beside : found->second) {
    const std::int64_t columns = beside.a.shape[1], rank = beside.a.shape[0], rows = beside.b.shape[0];
    std::vector<double> sums(static_cast<std::size_t>(columns));
    for (std::int64_t at = 0; at < std::ssize(values); at += columns) {
      const std::int64_t row = (first + at) / columns - beside.first_row;
      if (row < 0 || row >= rows) continue;
      std::ranges::fill(sums, 0.0);
      for (std::int64_t k = 0; k < rank; ++k) {
        const double b = scale_ * static_cast<double>(beside.b.values[static_cast<std::size_t>(row * rank + k)]);
        const float* const a = beside.a.values.data() + k * columns;
        for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += b * static_cast<double>(a[j]);
      }
      float* const to = values.data() + at;
      for (std::size_t j = 0; j < sums.size(); ++j) to[j] = static_cast<float>(static_cast<double>(to[j]) + sums[j]);
    }
  }
}

std::uint64_t export_adapter(const Reader& reader, const io::Path& folder, const std::string& base) {
  demand_new(folder);
  const arch::ModelConfig config = arch::model_from_json(reader.manifest().model, reader.folder().string());
  const names::Family family = names::family_of(config);
  std::vector<AdapterValues> values;
  NamedTensors tensors;
  std::uint64_t bytes = 0;
  for (const names::AdapterTensor& tensor : names::tensors_of_files(config, family)) {
    values.push_back(read_whole(reader, tensor.name));
    tensors.push_back({tensor.published, view(std::span(values.back().values), values.back().shape)});
    bytes += tensors.back().tensor.bytes();
  }
  io::make_folders(io::folder_of(folder));
  io::NewFolder target(folder);
  write_tensors(target.path() / adapter_weights_file, tensors, {{"format", "pt"}});
  io::replace_file(target.path() / adapter_config_file, names::adapter_config(config, family, base).dump(2) + "\n");
  target.commit();
  return bytes;
}

}  // namespace lockstep::checkpoint::huggingface
