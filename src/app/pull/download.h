#pragma once

// Files of a hub in a folder. Each is NAME.part until all of it is there and has its checksum; a later call goes on with that.

#include <cstdint>
#include <string>
#include <vector>

#include "app/pull/hub.h"
#include "io/file.h"

namespace lockstep::app {

class Download {
 public:
  /// Downloads into `folder`, which is there. The hub outlives this.
  Download(const Hub& hub, std::string model, std::string commit, io::Path folder);

  /// Names each file once it is there. Throws UserError before anything is fetched where a file is there that differs, or where
  /// the file system has no room. Failures of the network are UserErrors, or io::http::Broken where they go on after some tries.
  void bring(const std::vector<HubFile>& files);
  /// How many files bring() was given so far, and their bytes; files that were there already count.
  std::size_t files() const { return files_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Part;
  bool is_there(const HubFile& file) const;
  void bring(const HubFile& file);
  void fetch(const HubFile& file, Part& part) const;
  bool begin(const io::http::Head& head, const HubFile& file, Part& part) const;
  [[noreturn]] void refuse_size(const HubFile& file, const std::string& said) const;

  const Hub& hub_;
  std::string model_, commit_;
  io::Path folder_;
  std::size_t files_ = 0;
  std::uint64_t bytes_ = 0;
};

/// Throws UserError where a folder holds a file that would be read as a part of the model, and is none of the hub's.
void refuse_strangers(const io::Path& folder, const std::vector<HubFile>& all, const std::string& model);

}  // namespace lockstep::app
