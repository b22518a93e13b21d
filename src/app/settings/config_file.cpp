#include "app/settings/config_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>

#include "app/settings/keys.h"
#include "base/shell.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

std::optional<Json> scalar(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return Json(value->get());
  if (const auto* value = node.as_integer()) return Json(value->get());
  if (const auto* value = node.as_floating_point()) return Json(value->get());
  if (const auto* value = node.as_string()) return Json(value->get());
  return std::nullopt;
}

class Reader {
 public:
  Reader(std::string_view what, RunConfig& config) : what_(what), config_(config) {}

  std::vector<Problem> read(const toml::table& file) {
    for (const auto& [name, node] : file) read_group(name.str(), node);
    return std::move(problems_);
  }

 private:
  void read_group(std::string_view group, const toml::node& node) {
    std::vector<std::string> names;
    for (const settings::Group& one : settings::groups()) names.emplace_back(one.name);
    const bool known = std::find(names.begin(), names.end(), group) != names.end();
    const toml::table* members = node.as_table();
    if (known && members != nullptr) {
      for (const auto& [name, value] : *members) read_key(fmt::format("{}.{}", group, name.str()), value);
      return;
    }
    const std::string near = nearest_name(group, names);
    std::string remedy = near.empty() ? "lockstep help config lists them" : fmt::format("did you mean [{}]?", near);
    if (members == nullptr)
      remedy = known ? fmt::format("write it as a table: [{}]", group) : settings::unknown_key(group).remedy;
    add(node, {members != nullptr ? fmt::format("unknown group [{}]", group) : fmt::format("{} stands in no group", group),
               std::move(remedy)});
  }

  void read_key(const std::string& name, const toml::node& node) {
    const settings::Key* key = settings::find_key(name);
    if (key == nullptr) return add(node, settings::unknown_key(name));
    const std::optional<Json> value = scalar(node);
    if (!value) {
      return add(node,
                 {fmt::format("{} is a list, table or date: must be {}", name, settings::rule_text(*key)), "write one value"});
    }
    if (auto problem = settings::assign(config_, *key, *value)) add(node, std::move(*problem));
  }

  void add(const toml::node& node, Problem problem) {
    problem.message = fmt::format("{}:{}: {}", what_, node.source().begin.line, problem.message);
    problems_.push_back(std::move(problem));
  }

  std::string_view what_;
  RunConfig& config_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> read_config_text(std::string_view text, std::string_view what, RunConfig& config) {
  try {
    return Reader(what, config).read(toml::parse(text, what));
  } catch (const toml::parse_error& error) {
    return {{fmt::format("{}:{}: {}", what, error.source().begin.line, error.description()),
             what.ends_with(".py") ? fmt::format("nanoGPT's files stand alone: {}", own_command({"train", std::string(what)}))
                                   : "settings are TOML (https://toml.io): [train], and below it max_iters = 500"}};
  }
}

std::vector<Problem> read_config_file(const std::string& path, RunConfig& config) {
  std::string text;
  try {
    text = io::read_file(path);
  } catch (const UserError& error) {
    return error.problems();
  }
  return read_config_text(text, path, config);
}

}  // namespace lockstep::app
