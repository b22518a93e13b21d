#pragma once

// A folder that goes with the test and the files in it, and what a UserError says.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/corpus.h"
#include "support/temp_folder.h"

namespace lockstep::data {

class Folder {
 public:
  std::string path(std::string_view name = "") const { return (folder_ / name).string(); }
  std::string write(std::string_view name, std::string_view bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return path(name);
  }
  template <class Id>
  std::string write_ids(std::string_view name, const std::vector<Id>& ids) const {
    return write(name, {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)});
  }
  std::string read(std::string_view name) const { return contents(folder_ / name); }
  static std::string contents(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  /// Names of what lies in a folder, sorted and joined by spaces.
  std::string listing(std::string_view at = "") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / at)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
    return text;
  }

 private:
  TempFolder folder_;
};

/// The ids 0, 1, 2, ... modulo `vocabulary`.
inline std::vector<std::uint16_t> counting(std::size_t count, std::size_t vocabulary) {
  std::vector<std::uint16_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::uint16_t>(i % vocabulary);
  return ids;
}

/// The message of the UserError that `action` throws; fails the test when it throws none.
template <class Action>
std::string user_error(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_FALSE(error.problems().front().remedy.empty()) << "no remedy: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no UserError was thrown";
  return "";
}

/// What a corpus' tokens say, training's before validation's.
inline std::string decoded(const Corpus& corpus) {
  std::string text;
  for (const TokenFile* file : {&corpus.train, &corpus.val}) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file->tokens()));
    file->read(0, ids);
    text += corpus.tokenizer->decode(ids);
  }
  return text;
}

}  // namespace lockstep::data
