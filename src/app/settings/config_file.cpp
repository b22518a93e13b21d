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

// Tables in tables, of which other programs have three at most; a name of more is told as it is.
constexpr std::ptrdiff_t deepest = 8;

class Reader {
 public:
  Reader(std::string_view what, RunConfig& config) : what_(what), config_(config) {}

  std::vector<Problem> read(const toml::table& file) {
    for (const auto& [name, node] : file) read_group(std::string(name.str()), node);
    std::ranges::stable_sort(found_, {}, &Found::line);
    std::vector<Problem> problems;
    for (Found& one : found_) {
      one.problem.message = fmt::format("{}:{}: {}", what_, one.line, one.problem.message);
      problems.push_back(std::move(one.problem));
    }
    return problems;
  }

 private:
  struct Found {
    toml::source_index line;
    Problem problem;
  };

  void read_group(const std::string& group, const toml::node& node) {
    std::vector<std::string> names;
    for (const settings::Group& one : settings::groups()) names.emplace_back(one.name);
    const bool known = std::ranges::find(names, group) != names.end();
    const toml::table* members = node.as_table();
    if (members == nullptr) {
      const std::string remedy = known ? fmt::format("write it as a table: [{}]", group) : settings::unknown_key(group).remedy;
      return add(node, {fmt::format("{} stands in no group", group), remedy});
    }
    const std::string near = known ? "" : nearest_name(group, names);
    const auto belongs_to_near = [&](const auto& member) {
      return settings::find_key(fmt::format("{}.{}", near, member.first.str())) != nullptr;
    };
    if (!known && std::ranges::all_of(*members, belongs_to_near)) {  // misspelt; or empty
      return add(node, {fmt::format("unknown group [{}]", group),
                        near.empty() ? "lockstep help config lists them" : fmt::format("did you mean [{}]?", near)});
    }
    for (const auto& [name, value] : *members) read_key(fmt::format("{}.{}", group, name.str()), value);
  }

  void read_key(const std::string& name, const toml::node& node) {
    const settings::Key* key = settings::find_key(name);
    if (key == nullptr && node.is_table() && std::ranges::count(name, '.') < deepest) return read_group(name, node);
    if (key == nullptr) return add(node, settings::unknown_key(name));
    const std::optional<Json> value = scalar(node);
    if (!value) {
      return add(node,
                 {fmt::format("{} is a list, table or date: must be {}", name, settings::rule_text(*key)), "write one value"});
    }
    if (auto problem = settings::assign(config_, *key, *value)) add(node, std::move(*problem));
  }

  void add(const toml::node& node, Problem problem) { found_.push_back({node.source().begin.line, std::move(problem)}); }

  std::string_view what_;
  RunConfig& config_;
  std::vector<Found> found_;
};

}  // namespace

std::vector<Problem> read_config_text(std::string_view text, std::string_view what, RunConfig& config) {
  try {
    return Reader(what, config).read(toml::parse(text, what));
  } catch (const toml::parse_error& error) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    std::string remedy = "settings are TOML (https://toml.io): [train], and below it max_iters = 500";
    if (what.ends_with(".py")) remedy = fmt::format("nanoGPT's files stand alone: {}", own_command({"train", std::string(what)}));
    if (begin != text.npos && text[begin] == '{') remedy = fmt::format("a file of DeepSpeed's is train.ds_config_path={}", what);
    return {{fmt::format("{}:{}: {}", what, error.source().begin.line, error.description()), std::move(remedy)}};
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
