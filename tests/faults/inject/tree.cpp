#include "faults/inject/tree.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace lockstep::faults {
namespace fs = std::filesystem;

Tree read_tree(const Path& folder) {
  Tree tree;
  if (!fs::exists(folder)) return tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (entry.is_directory()) {
      tree[name + "/"] = "";
    } else {
      std::ifstream file(entry.path(), std::ios::binary);
      tree[name] = std::string(std::istreambuf_iterator<char>(file), {});
    }
  }
  return tree;
}

void write_tree(const Tree& tree, const Path& folder) {
  fs::create_directories(folder);
  for (const auto& [name, content] : tree) {  // a folder stands before what is in it
    if (name.ends_with('/')) {
      fs::create_directory(folder / name.substr(0, name.size() - 1));
    } else {
      std::ofstream(folder / name, std::ios::binary) << content;
    }
  }
}

Tree part_of(const Tree& tree, const std::string& folder) {
  Tree part;
  for (const auto& [name, content] : tree) {
    if (name.starts_with(folder) && name.size() > folder.size()) part[name.substr(folder.size())] = content;
  }
  return part;
}

std::string difference(const Tree& is, const Tree& expected) {
  std::string text;
  const auto add = [&](std::string_view what, const std::string& name) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, name);
  };
  for (const auto& [name, content] : expected) {
    const auto found = is.find(name);
    if (found == is.end()) {
      add("without", name);
    } else if (found->second != content) {
      add("other", name);
    }
  }
  for (const auto& [name, content] : is) {
    if (!expected.contains(name)) add("also", name);
  }
  return text;
}

}  // namespace lockstep::faults
