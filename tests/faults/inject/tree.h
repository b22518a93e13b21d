#pragma once

// A folder with all that is in it, as a value.

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::faults {

using Path = std::filesystem::path;

/// Contents by path below the folder; folders end in '/'.
using Tree = std::map<std::string, std::string>;

Tree read_tree(const Path& folder);
/// Makes `folder` what `tree` says; it must not exist.
void write_tree(const Tree& tree, const Path& folder);
/// The part of the tree that lies in `folder`, which ends in '/'; its paths are below that.
Tree part_of(const Tree& tree, const std::string& folder);
/// Where the trees differ, for people; empty: nowhere.
std::string difference(const Tree& is, const Tree& expected);

}  // namespace lockstep::faults
