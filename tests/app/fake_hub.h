#pragma once

// A hub of models on this machine, with a store that it redirects to for large files. It is honest but where a test says
// otherwise.

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/sha256.h"
#include "support/http_server.h"
#include "support/text.h"

namespace lockstep::app {

using support::HttpAsked, support::HttpConnection, support::HttpServer;

inline const std::string pulled_commit = "0123456789abcdef0123456789abcdef01234567";

inline std::string pulled_hash(const std::string& content, bool large) {
  io::Digest digest(large ? io::DigestKind::sha256 : io::DigestKind::sha1);
  const std::string text = large ? content : fmt::format("blob {}", content.size()) + '\0' + content;
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

/// Two servers: the hub, and one that it redirects to for large files.
class FakeHub {
 public:
  std::map<std::string, std::string> files;
  std::set<std::string> large = {"model.safetensors"};
  std::map<std::string, HttpServer::Answer> wrong;  ///< answers for paths that contain the text
  std::string listing;                              ///< a listing in place of the true one

  std::string url() const { return hub_.url(); }
  std::vector<HttpAsked> asked_hub() const { return hub_.asked(); }
  std::vector<HttpAsked> asked_store() const { return store_.asked(); }

  /// A file as an honest server sends it: from the byte that is asked for.
  static void send(const std::string& content, const HttpAsked& asked, const HttpConnection& to) {
    const std::size_t range = asked.head.find("Range: bytes=");
    const std::size_t from = range == asked.head.npos ? 0 : std::stoul(asked.head.substr(range + 13));
    const std::string type = "application/octet-stream";
    if (range == asked.head.npos) return to.answer(200, type, content);
    if (from >= content.size()) return to.answer(416, type, "");
    to.answer(206, type, content.substr(from),
              fmt::format("Content-Range: bytes {}-{}/{}\r\n", from, content.size() - 1, content.size()));
  }

 private:
  void serve(const HttpAsked& asked, const HttpConnection& to) {
    for (const auto& [part, answer] : wrong)
      if (contains(asked.path, part)) return answer(asked, to);
    const std::string json = "application/json; charset=utf-8";
    if (asked.path == "/api/models/org/tiny/revision/main")
      return to.answer(200, json, fmt::format("{{\"sha\": \"{}\"}}", pulled_commit));
    const std::string tree = fmt::format("/api/models/org/tiny/tree/{}", pulled_commit);
    if (asked.path.starts_with(tree)) {
      if (!listing.empty()) return to.answer(200, json, listing);
      const bool second = contains(asked.path, "cursor=");
      return to.answer(200, json, page(second),
                       second ? "" : fmt::format("Link: <{}{}?cursor=a>; rel=\"next\"\r\n", url(), tree));
    }
    const std::string resolved = fmt::format("/org/tiny/resolve/{}/", pulled_commit);
    const std::string name = asked.path.starts_with(resolved) ? asked.path.substr(resolved.size()) : "";
    if (!files.contains(name)) return to.answer(404, json, "{}", "X-Error-Message: Repository not found\r\n");
    if (large.contains(name))
      return to.answer(302, "text/plain", "Found", fmt::format("Location: {}/{}?signature=geheim\r\n", store_.url(), name));
    send(files.at(name), asked, to);
  }
  void store(const HttpAsked& asked, const HttpConnection& to) {
    const std::string name = asked.path.substr(1, asked.path.find('?') - 1);
    for (const auto& [part, answer] : wrong)
      if (part == "store" || part == "store/" + name) return answer(asked, to);
    send(files.at(name), asked, to);
  }
  /// The first half of the files, or the second, with folders.
  std::string page(bool second) const {
    Json::Array entries{Json(
        Json::Object{{"type", "directory"}, {"oid", pulled_hash("", false)}, {"size", 0}, {"path", second ? "onnx" : "gguf"}})};
    std::size_t i = 0;
    for (const auto& [name, content] : files) {
      if ((2 * i++ < files.size()) == second) continue;
      const auto size = static_cast<std::int64_t>(content.size());
      Json entry(Json::Object{{"type", "file"}, {"oid", pulled_hash(content, false)}, {"size", size}, {"path", name}});
      if (large.contains(name))
        entry.set("lfs", Json::Object{{"oid", pulled_hash(content, true)}, {"size", size}, {"pointerSize", 134}});
      entries.push_back(std::move(entry));
    }
    return Json(std::move(entries)).dump();
  }

  HttpServer store_{[this](const HttpAsked& asked, const HttpConnection& to) { store(asked, to); }};
  HttpServer hub_{[this](const HttpAsked& asked, const HttpConnection& to) { serve(asked, to); }};
};

}  // namespace lockstep::app
