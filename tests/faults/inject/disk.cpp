#include "faults/inject/disk.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <utility>

namespace lockstep::faults {

std::string Cut::text() const {
  const std::string kept = rest == Rest::names  ? "names without data"
                           : rest == Rest::data ? "data without names"
                                                : fmt::format("the first {}", count);
  return fmt::format("power cut after change {}, of what was not synced {}", changes, kept);
}

Disk::Disk(const Tree& before, Path folder) : folder_(std::move(folder)) {
  now_.push_back({.folder = true});
  for (const auto& [name, content] : before) {
    const bool is_folder = name.ends_with('/');
    const int node = make_node(is_folder);
    now_[static_cast<std::size_t>(node)].content = content;
    const Edit place = place_of(folder_ / (is_folder ? name.substr(0, name.size() - 1) : name), node);
    now_[static_cast<std::size_t>(place.folder)].names[place.name] = node;
  }
  start_ = now_;
}

int Disk::make_node(bool folder) {
  now_.push_back({.folder = folder});
  return static_cast<int>(now_.size()) - 1;
}

int Disk::find(const Path& path) const {
  int node = 0;
  for (const Path& name : path.lexically_relative(folder_)) {
    if (name == ".") continue;
    const auto& names = now_[static_cast<std::size_t>(node)].names;
    const auto found = names.find(name.string());
    if (found == names.end()) return none;
    node = found->second;
  }
  return node;
}

Disk::Edit Disk::place_of(const Path& path, int node) const { return {find(path.parent_path()), path.filename().string(), node}; }

void Disk::change_names(std::vector<Edit> edits) {
  std::erase_if(edits, [](const Edit& edit) { return edit.folder == none; });
  if (edits.empty()) return;
  Change change{.edits = std::move(edits)};
  apply(change, now_, false);
  changes_.push_back(std::move(change));
}

void Disk::add_open(const Call& call) {
  int node = find(call.path);
  if (node == none && (call.flags & O_CREAT) != 0) {
    node = make_node(false);
    change_names({place_of(call.path, node)});
  }
  const bool empties = node != none && (call.flags & O_TRUNC) != 0 && !now_[static_cast<std::size_t>(node)].content.empty();
  if (empties) changes_.push_back({.node = node});
  if (empties) now_[static_cast<std::size_t>(node)].content.clear();
}

void Disk::add_rename(const Call& call) {
  const int node = find(call.path), other = find(call.to);
  if (node == none) return;
  const bool exchanges = call.kind->name == "renameat2" && (call.flags & RENAME_EXCHANGE) != 0;
  change_names({place_of(call.path, exchanges ? other : none), place_of(call.to, node)});
}

void Disk::add(const Call& call) {
  if (call.result < 0) return;
  const std::string_view name = call.kind->name;
  if (name.starts_with("open")) return add_open(call);
  if (name.starts_with("rename")) return add_rename(call);
  if (name.starts_with("link")) return change_names({place_of(call.to, find(call.path))});
  if (name.starts_with("unlink") || name == "rmdir") return change_names({place_of(call.path, none)});
  if (name.starts_with("mkdir")) return change_names({place_of(call.path, make_node(true))});
  const int node = find(call.path);
  if (node == none) return;  // a file that has lost its name
  if (name == "fsync" || name == "fdatasync") changes_.push_back({.synced = node});
  if (!call.kind->changes_data) return;
  changes_.push_back({.node = node, .content = call.content});
  now_[static_cast<std::size_t>(node)].content = call.content;
}

bool Disk::is_durable(std::size_t change, std::size_t changes) const {
  const Change& what = changes_[change];
  const auto synced = [&](int node) {
    const auto end = changes_.begin() + static_cast<std::ptrdiff_t>(changes);
    return std::any_of(changes_.begin() + static_cast<std::ptrdiff_t>(change), end,
                       [&](const Change& later) { return later.synced == node; });
  };
  if (what.node != none) return synced(what.node);
  // A file system brings a rename to the device as one, with the folder of the new name.
  const bool names = std::any_of(what.edits.begin(), what.edits.end(), [](const Edit& edit) { return edit.node != none; });
  return std::all_of(what.edits.begin(), what.edits.end(),
                     [&](const Edit& edit) { return (names && edit.node == none) || synced(edit.folder); });
}

void Disk::apply(const Change& change, std::vector<Node>& nodes, bool zeros) {
  for (const Edit& edit : change.edits) {
    auto& names = nodes[static_cast<std::size_t>(edit.folder)].names;
    if (edit.node == none) {
      names.erase(edit.name);
    } else {
      names[edit.name] = edit.node;
    }
  }
  if (change.node == none) return;
  std::string& content = nodes[static_cast<std::size_t>(change.node)].content;
  const auto same = std::mismatch(content.begin(), content.end(), change.content.begin(), change.content.end()).second;
  const auto kept = static_cast<std::size_t>(same - change.content.begin());
  content = change.content;
  if (zeros) std::fill(content.begin() + static_cast<std::ptrdiff_t>(kept), content.end(), '\0');
}

Tree Disk::state(const Cut& cut) const {
  std::vector<Node> nodes = start_;
  for (std::size_t i = nodes.size(); i < now_.size(); ++i) nodes.push_back({.folder = now_[i].folder});
  std::size_t unsynced = 0;
  for (std::size_t i = 0; i < cut.changes; ++i) {
    const Change& change = changes_[i];
    if (change.synced != none) continue;
    const bool durable = is_durable(i, cut.changes), data = change.node != none;
    const bool kept = durable || (cut.rest == Cut::Rest::first && unsynced < cut.count) ||
                      (cut.rest == Cut::Rest::data && data) || cut.rest == Cut::Rest::names;
    if (!durable) ++unsynced;
    if (kept) apply(change, nodes, !durable && cut.rest == Cut::Rest::names);
  }
  Tree tree;
  add_to(tree, nodes, 0, "");
  return tree;
}

void Disk::add_to(Tree& tree, const std::vector<Node>& nodes, int node, const std::string& prefix) {
  for (const auto& [name, inner] : nodes[static_cast<std::size_t>(node)].names) {
    const Node& one = nodes[static_cast<std::size_t>(inner)];
    tree[prefix + name + (one.folder ? "/" : "")] = one.content;
    if (one.folder) add_to(tree, nodes, inner, prefix + name + "/");
  }
}

std::vector<Cut> Disk::cuts() const {
  std::vector<Cut> all;
  std::set<std::size_t> seen;
  const auto add_state = [&](const Cut& cut) {
    std::string whole;
    for (const auto& [name, content] : state(cut)) whole += fmt::format("{}\n{}\n{}", name, content.size(), content);
    if (seen.insert(std::hash<std::string>{}(whole)).second) all.push_back(cut);
  };
  for (std::size_t changes = 0; changes <= changes_.size(); ++changes) {
    std::size_t unsynced = 0;
    for (std::size_t i = 0; i < changes; ++i) unsynced += changes_[i].synced == none && !is_durable(i, changes) ? 1 : 0;
    for (std::size_t count = 0; count <= unsynced; ++count) add_state({changes, Cut::Rest::first, count});
    add_state({changes, Cut::Rest::names, 0});
    add_state({changes, Cut::Rest::data, 0});
  }
  return all;
}

}  // namespace lockstep::faults
