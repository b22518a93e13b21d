// What a hub of models answers: the head of an answer, and the list of a model's files, each of which lies in the folder.

#include "app/pull/hub.h"

#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  std::string_view rest = text_of(input);
  if (rest.starts_with("HTTP/")) {
    io::http::HeadReader reader;
    if (!reader.read(rest)) return;
    ensure(reader.head().status >= 200, "an answer has a status");
  }
  for (const app::HubFile& file : app::files_of_listing(rest, "input")) {
    const std::string path = "/" + file.name + "/";
    ensure(path.find("/../") == path.npos && path.find("/./") == path.npos && path.find("//") == path.npos,
           "a file lies in the folder");
    ensure(file.hash.size() == 40 || file.hash.size() == 64, "a file has a checksum");
  }
}

}  // namespace lockstep::fuzz
