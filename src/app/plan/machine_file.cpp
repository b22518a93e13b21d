#include "app/plan/machine_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <sstream>
#include <variant>

#include "base/error.h"
#include "base/text/columns.h"
#include "base/units.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

using planner::Machine;

struct MachineKey {
  std::string_view name, meaning;
  std::variant<double Machine::*, std::int64_t Machine::*> member;
  double unit = 1;        ///< what a number in the file counts
  bool is_bytes = false;  ///< may be "80GB"
};

const std::array<MachineKey, 20>& keys() {
  static const std::array<MachineKey, 20> all{{
      {"nodes", "nodes", &Machine::nodes},
      {"devices", "devices of a node", &Machine::devices},
      {"memory", "bytes of a device's memory (\"80GB\")", &Machine::memory, 1, true},
      {"reserved", "bytes of it that drivers and libraries take", &Machine::reserved, 1, true},
      {"peak_tflops", "TFLOPS of a device for bf16 products", &Machine::peak_flops, 1e12},
      {"product_share", "what of it a step's products reach (lockstep bench gemm measures it)", &Machine::product_share},
      {"f32_share", "likewise of products of f32; 0: half of product_share", &Machine::f32_share},
      {"product_depth", "terms, whose time each sum of a product takes besides its own", &Machine::product_depth},
      {"attention_share", "of the products' rate, what attention in tiles reaches", &Machine::attention_share},
      {"units", "tiles that a device computes at a time (SMs); 0: products have no waves", &Machine::units},
      {"memory_gbps", "GB/s of a device's memory", &Machine::memory_rate, 1e9},
      {"update_gbps", "GB/s of it where what is read is written back in place; 0: memory_gbps", &Machine::update_rate, 1e9},
      {"inside_gbps", "GB/s of a device to the others of its node, one way", &Machine::inside_rate, 1e9},
      {"between_gbps", "GB/s of a device's share of the network, one way", &Machine::between_rate, 1e9},
      {"link_share", "what of these collectives reach (lockstep bench collectives measures it)", &Machine::link_share},
      {"inside_latency_us", "microseconds until a collective inside a node moves anything", &Machine::inside_latency, 1e-6},
      {"between_latency_us", "likewise between nodes", &Machine::between_latency, 1e-6},
      {"host_memory", "bytes of a node's own memory; 0: nothing is offloaded there", &Machine::host_memory, 1, true},
      {"host_gbps", "GB/s between a device and the host's memory, one way", &Machine::host_rate, 1e9},
      {"disk_gbps", "GB/s of a node's disks; 0: it has none", &Machine::disk_rate, 1e9},
  }};
  return all;
}

class MachineReader {
 public:
  explicit MachineReader(const std::string& path) : path_(path) {}

  Machine read() {
    const toml::table file = parsed();
    Machine machine = base(file);
    machine.name = path_;
    for (const auto& [name, node] : file) {
      if (name.str() == "base") continue;
      if (name.str() == "name") {
        machine.name = node.value_or(path_);
        continue;
      }
      const auto key = std::ranges::find(keys(), name.str(), &MachineKey::name);
      key == keys().end() ? unknown(name.str(), node) : assign(machine, *key, node);
    }
    for (const Problem& problem : check(machine))
      problems_.push_back({fmt::format("{}: {}", path_, problem.message), problem.remedy});
    if (!problems_.empty()) throw UserError(std::move(problems_));
    return machine;
  }

 private:
  toml::table parsed() const {
    try {
      return toml::parse(io::read_file(path_), path_);
    } catch (const toml::parse_error& error) {
      throw UserError(fmt::format("{}:{}: {}", path_, error.source().begin.line, error.description()),
                      "see https://toml.io for the syntax");
    }
  }
  Machine base(const toml::table& file) {
    const toml::node* node = file.get("base");
    if (node == nullptr) return {};
    const std::string name = node->value_or(std::string());
    if (const Machine* preset = planner::find_machine(name)) return *preset;
    add(*node, fmt::format("base = {}: there is no such preset", name), "base = \"a100\", \"h100\", \"h200\" or \"b200\"");
    return planner::machine_presets().front();
  }
  void assign(Machine& machine, const MachineKey& key, const toml::node& node) {
    std::optional<double> value = node.value<double>();
    if (!value && key.is_bytes) {
      if (const auto text = node.value<std::string>()) {
        if (const auto bytes = bytes_from(*text)) value = static_cast<double>(*bytes);
      }
    }
    if (!value)
      return add(node, fmt::format("{}: must be a number{}", key.name, key.is_bytes ? ", or bytes as \"80GB\"" : ""),
                 std::string(key.meaning));
    constexpr double least = 1e-9;
    const double most = key.is_bytes ? 0x1p62 : 1e12;
    if (*value != 0 && !(std::abs(*value) >= least && std::abs(*value) <= most)) {
      return add(node, fmt::format("{} = {:g}: must be from {:g} to {:g}, or 0", key.name, *value, least, most),
                 std::string(key.meaning));
    }
    if (const auto* whole = std::get_if<std::int64_t Machine::*>(&key.member)) {
      if (!node.is_integer())
        return add(node, fmt::format("{} = {:g}: must be a whole number", key.name, *value), std::string(key.meaning));
      machine.** whole = node.value_or(std::int64_t{0});
    } else {
      machine.*std::get<double Machine::*>(key.member) = *value * key.unit;
    }
  }
  void unknown(std::string_view name, const toml::node& node) {
    std::vector<std::string> names{"name", "base"};
    for (const MachineKey& key : keys()) names.emplace_back(key.name);
    const std::string near = nearest_name(name, names);
    add(node, fmt::format("{}: a machine has no such key", name),
        near.empty() ? "see lockstep plan search --help" : fmt::format("did you mean {}?", near));
  }
  void add(const toml::node& node, std::string message, std::string remedy) {
    problems_.push_back({fmt::format("{}:{}: {}", path_, node.source().begin.line, message), std::move(remedy)});
  }

  const std::string& path_;
  std::vector<Problem> problems_;
};

}  // namespace

Machine named_machine(const std::string& name, std::int64_t nodes) {
  const Machine* preset = planner::find_machine(name);
  if (preset == nullptr && !name.ends_with(".toml")) {
    throw UserError(name.empty() ? "MACHINE is missing" : fmt::format("machine {}: neither a preset nor a file", name),
                    machine_names());
  }
  Machine machine = preset != nullptr ? *preset : MachineReader(name).read();
  if (nodes == 0) return machine;
  machine.nodes = nodes;
  if (std::vector<Problem> problems = check(machine); !problems.empty()) throw UserError(std::move(problems));
  return machine;
}

Machine with_devices(Machine machine, std::optional<std::int64_t> asked) {
  if (!asked) return machine;
  const std::int64_t devices = *asked;
  if (devices < 1)
    throw UserError(fmt::format("--gpus {}: must be at least 1", devices), fmt::format("--gpus {}", machine.devices));
  if (devices > machine.devices && devices % machine.devices != 0) {
    throw UserError(fmt::format("--gpus {}: nodes of {} have {} devices: at most these, or a multiple", devices, machine.name,
                                machine.devices),
                    fmt::format("--gpus {}", devices / machine.devices * machine.devices));
  }
  machine.devices = std::min(machine.devices, devices);
  machine.nodes = devices / machine.devices;
  return machine;
}

std::string machine_names() {
  std::string names;
  for (const Machine& one : planner::machine_presets()) names += one.name + ", ";
  return names + "or a machine.toml";
}

std::string machine_text(const Machine& machine) {
  std::ostringstream name;
  name << toml::table{{"name", machine.name}};
  std::string text = name.str() + "\n";
  for (const MachineKey& key : keys()) {
    if (const auto* whole = std::get_if<std::int64_t Machine::*>(&key.member)) {
      text += fmt::format("{} = {}\n", key.name, machine.**whole);
    } else {
      text += fmt::format("{} = {:.6g}\n", key.name, machine.*std::get<double Machine::*>(key.member) / key.unit);
    }
  }
  return text;
}

std::vector<HelpRow> machine_keys() {
  std::vector<HelpRow> rows{{"base", "a preset that has what the file leaves out"}, {"name", "for people"}};
  for (const MachineKey& key : keys()) rows.push_back({std::string(key.name), std::string(key.meaning)});
  return rows;
}

}  // namespace lockstep::app
