#pragma once

// A hub of models, as Hugging Face has it: what a model's repository holds, and which of it makes a folder that is read here.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/http/get.h"

namespace lockstep::app {

/// A file of a repository.
struct HubFile {
  std::string name;
  std::uint64_t size = 0;
  std::string hash;  ///< 64 hexadecimal digits: the SHA-256 of its bytes; 40: git's name of it
};

/// Throws UserError unless the text is ORG/NAME (or NAME, of old models), by the hub's own rules.
void demand_model_name(const std::string& name);

/// The files of a tree's listing, without folders. Throws UserError: for another text, and for a path that leaves the folder.
std::vector<HubFile> files_of_listing(std::string_view text, const std::string& what);

/// The small files of a model in the order in which they are wanted. The first is `config.json`, then the index of weights that
/// lie in several files, then the others. Throws UserError that says what there is instead of config.json or safetensors.
std::vector<HubFile> small_files_of(const std::vector<HubFile>& all, const std::string& model);
/// The files with weights. `shards`: those that the index names, where there is one.
std::vector<HubFile> weight_files_of(const std::vector<HubFile>& all, const std::vector<std::string>& shards,
                                     const std::string& model);
/// Whether weight_files_of() needs the index.
bool has_shards(const std::vector<HubFile>& all);
/// Whether a file of that name would be read as a part of a model.
bool is_part_of_model(std::string_view name);

/// Calls attempt() again while it throws Broken, until some tries in a row have not changed what reached() says. The longer the
/// `patience` (seconds), the longer are the pauses.
void insist(std::int64_t patience, const std::function<std::uint64_t()>& reached, const std::function<void()>& attempt);

class Hub {
 public:
  /// `token` may be empty. Throws UserError for an endpoint that is no URL, and one to which a token would go unencrypted.
  Hub(std::string endpoint, std::string token, std::int64_t patience);

  const std::string& endpoint() const { return endpoint_; }
  std::int64_t patience() const { return patience_; }
  /// The commit that a revision means now.
  std::string commit_of(const std::string& model, const std::string& revision) const;
  /// The files at the top of a commit.
  std::vector<HubFile> files_of(const std::string& model, const std::string& commit) const;
  io::http::Request request_for(const std::string& model, const std::string& commit, const HubFile& file) const;
  /// Throws UserError (or Broken) for an answer that is not the one that was asked for. `what` is asked of `model`.
  void demand_answer(const io::http::Head& head, const std::string& model, const std::string& what) const;

 private:
  io::http::Request request(const std::string& url) const;
  /// The text of a small answer. `next` gets the page that its field Link names, if any.
  std::string text_of(const std::string& url, const std::string& model, const std::string& what, std::string& next) const;
  std::string endpoint_, token_;
  std::int64_t patience_;
};

}  // namespace lockstep::app
