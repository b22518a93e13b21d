#pragma once

// What a power cut leaves of a folder. The file system has brought to the device what was synced. It may have brought any part of
// the rest.

#include <cstdint>
#include <string>
#include <vector>

#include "faults/inject/tree.h"
#include "faults/trace/call.h"

namespace lockstep::faults {

/// A state that a power cut may leave: after so many of the changes, with a part of what was not synced by then.
struct Cut {
  enum class Rest {
    first,  ///< the first `count`, names and data in their order
    names,  ///< all names, and files as long as they were, but zeros in them
    data,   ///< all data, but no name
  };
  std::size_t changes = 0;
  Rest rest = Rest::first;
  std::size_t count = 0;
  std::string text() const;
};

/// The history of a folder: every change of a name or of data, and every sync. A name is on the device once its folder was
/// synced, data once its file was. A file system promises nothing else, though some do more.
class Disk {
 public:
  /// `before` is on the device.
  Disk(const Tree& before, Path folder);
  /// Adds a call with its result and content. Calls of other folders change nothing.
  void add(const Call& call);

  /// The states that a power cut may leave, all different, in the order of the history. The undisturbed ones are among them.
  std::vector<Cut> cuts() const;
  Tree state(const Cut& cut) const;

 private:
  struct Node {
    bool folder = false;
    std::map<std::string, int> names = {};
    std::string content = {};
  };
  struct Edit {
    int folder;
    std::string name;
    int node;  // none: the name goes
  };
  struct Change {
    std::vector<Edit> edits = {};  // of names, which take place together
    int node = none;               // whose data changes
    std::string content = {};
    int synced = none;
  };
  static constexpr int none = -1;

  int find(const Path& path) const;
  /// Folder and name of a path; the folder is none where it is elsewhere.
  Edit place_of(const Path& path, int node) const;
  int make_node(bool folder);
  void change_names(std::vector<Edit> edits);
  void add_open(const Call& call);
  void add_rename(const Call& call);
  bool is_durable(std::size_t change, std::size_t changes) const;
  static void apply(const Change& change, std::vector<Node>& nodes, bool zeros);
  static void add_to(Tree& tree, const std::vector<Node>& nodes, int node, const std::string& prefix);

  Path folder_;
  std::vector<Node> start_;  // number 0 is the folder itself; later ones are empty when they come to be
  std::vector<Node> now_;
  std::vector<Change> changes_;
};

}  // namespace lockstep::faults
