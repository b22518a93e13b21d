#include "app/pull/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "app/cli/build_info.h"
#include "base/json.h"
#include "base/number_text.h"
#include "base/text/visible.h"
#include "checkpoint/huggingface/folder.h"

namespace lockstep::app {
namespace {

constexpr std::size_t most_answer_bytes = std::size_t{64} << 20;
constexpr int most_pages = 100, idle_tries = 3;

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// As one part of a URL's path.
std::string url_part(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += is_word(c) || c == '-' || c == '.' ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

bool stays_inside(std::string_view path) {
  const std::vector<std::string> parts = parts_of_list(path, '/');
  const auto leaves = [](const std::string& part) { return part.empty() || part == "." || part == ".."; };
  return std::ranges::none_of(parts, leaves) &&
         std::ranges::none_of(path, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\\' || c == 0x7F; });
}

// The URL of `<URL>; rel="next"`.
std::string next_page(const std::string* link) {
  if (link == nullptr) return {};
  const std::size_t rel = link->find("rel=\"next\""), end = link->rfind('>', rel), start = link->rfind('<', end);
  return rel == link->npos || end == link->npos || start == link->npos ? std::string() : link->substr(start + 1, end - start - 1);
}

std::string names_of(const std::vector<HubFile>& files) {
  constexpr std::size_t most = 4;
  std::string names;
  for (std::size_t i = 0; i < std::min(files.size(), most); ++i)
    names += fmt::format("{}{}", i == 0 ? "" : ", ", visible(files[i].name));
  return files.size() > most ? fmt::format("{} and {} more", names, files.size() - most) : names;
}

template <class Keep>
std::vector<HubFile> files_where(const std::vector<HubFile>& all, const Keep& keep) {
  std::vector<HubFile> some;
  std::ranges::copy_if(all, std::back_inserter(some), [&](const HubFile& file) { return keep(std::string_view(file.name)); });
  return some;
}

bool has(const std::vector<HubFile>& all, std::string_view name) {
  return std::ranges::find(all, name, [](const HubFile& file) { return std::string_view(file.name); }) != all.end();
}

using checkpoint::huggingface::index_file, checkpoint::huggingface::weights_file;
constexpr std::array<std::string_view, 10> wanted = {checkpoint::huggingface::config_file,
                                                     index_file,
                                                     "generation_config.json",
                                                     checkpoint::huggingface::tokenizer_file,
                                                     "tokenizer_config.json",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "merges.txt",
                                                     "tokenizer.model"};

[[noreturn]] void throw_no_weights(const std::vector<HubFile>& all, const std::string& model) {
  const std::vector<HubFile> pickled = files_where(all, [](std::string_view name) {
    return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt");
  });
  if (!pickled.empty()) {
    throw UserError(fmt::format("{}: its weights are pickled ({}), which are not read here: such a file is a program that runs",
                                model, names_of(pickled)),
                    "look for a copy of the model with .safetensors, or save it with transformers: "
                    "save_pretrained(FOLDER, safe_serialization=True)");
  }
  const std::vector<HubFile> gguf = files_where(all, [](std::string_view name) { return name.ends_with(".gguf"); });
  if (!gguf.empty()) {
    throw UserError(fmt::format("{}: its weights are GGUF files ({}), of which pull does not choose", model, names_of(gguf)),
                    "download one by its address: it is read as a folder is");
  }
  throw UserError(fmt::format("{}: there are no .safetensors files", model), "name a repository that has the weights of a model");
}

}  // namespace

void demand_model_name(const std::string& name) {
  const std::vector<std::string> parts = parts_of_list(name, '/');
  const auto good = [](const std::string& part) {
    return !part.empty() && part.size() <= 96 &&
           std::ranges::all_of(part, [](char c) { return is_word(c) || c == '-' || c == '.'; }) && is_word(part.front()) &&
           is_word(part.back());
  };
  if (parts.size() <= 2 && std::ranges::all_of(parts, good) && name.find("--") == name.npos && name.find("..") == name.npos &&
      !name.ends_with(".git"))
    return;
  throw UserError(fmt::format("{}: a model's name is ORG/NAME, of letters, digits, '-', '_' and '.'", visible(name)),
                  "write it as the hub does: openai-community/gpt2");
}

std::vector<HubFile> files_of_listing(std::string_view text, const std::string& what) {
  const std::string remedy = "the server is no hub of models, or at fault: name another one with --endpoint";
  const Json json = Json::parse(text, what);
  if (!json.is_array()) throw UserError(fmt::format("{}: a list of files is expected", what), remedy);
  std::vector<HubFile> files;
  for (const Json& entry : json.array()) {
    const std::string& path = entry.at("path").string();
    if (!stays_inside(path))
      throw UserError(fmt::format("{}: the path {} would leave the folder", what, visible(path)),
                      "do not take files from there, and tell who runs it");
    if (entry.at("type").string() != "file") continue;
    const Json* lfs = entry.find("lfs");
    const bool large = lfs != nullptr && !lfs->is_null();
    const std::int64_t size = (large ? *lfs : entry).at("size").integer();
    HubFile file{path, static_cast<std::uint64_t>(size), (large ? *lfs : entry).at("oid").string()};
    if (size < 0 || !is_hex(file.hash, large ? 64 : 40))
      throw UserError(fmt::format("{}: {} has size {} and hash {}", what, visible(path), size, visible(file.hash)), remedy);
    files.push_back(std::move(file));
  }
  return files;
}

bool is_part_of_model(std::string_view name) {
  return std::ranges::find(wanted, name) != wanted.end() || name.ends_with(".safetensors") || name.ends_with(".jinja");
}

bool has_shards(const std::vector<HubFile>& all) { return !has(all, weights_file) && has(all, index_file); }

std::vector<HubFile> small_files_of(const std::vector<HubFile>& all, const std::string& model) {
  weight_files_of(all, {}, model);
  if (!has(all, wanted.front()))
    throw UserError(fmt::format("{}: there is no config.json, which says what the model is", model),
                    "name the repository of a model of transformers, not of an adapter or of data");
  std::vector<HubFile> files;
  for (const std::string_view name : wanted) {
    if (name == index_file && !has_shards(all)) continue;
    std::ranges::copy_if(all, std::back_inserter(files), [&](const HubFile& file) { return file.name == name; });
  }
  const auto is_template = [](std::string_view name) { return name.ends_with(".jinja") && name.find('/') == name.npos; };
  const std::vector<HubFile> templates = files_where(all, is_template);
  files.insert(files.end(), templates.begin(), templates.end());
  return files;
}

std::vector<HubFile> weight_files_of(const std::vector<HubFile>& all, const std::vector<std::string>& shards,
                                     const std::string& model) {
  if (has(all, weights_file)) return files_where(all, [](std::string_view name) { return name == weights_file; });
  std::vector<HubFile> found =
      files_where(all, [](std::string_view name) { return name.ends_with(".safetensors") && name.find('/') == name.npos; });
  if (found.empty()) throw_no_weights(all, model);
  if (!has_shards(all)) {
    if (found.size() == 1) return found;
    throw UserError(fmt::format("{}: there are {} .safetensors files ({}), but no {} that says what each holds", model,
                                found.size(), names_of(found), index_file),
                    "name a repository with an index, or a revision that has one");
  }
  for (const std::string& shard : shards) {
    if (!has(found, shard))
      throw UserError(fmt::format("{}: {} names {}, which is not there", model, index_file, visible(shard)),
                      "the repository is incomplete: take another --revision");
  }
  std::erase_if(found,
                [&](const HubFile& file) { return !shards.empty() && std::ranges::find(shards, file.name) == shards.end(); });
  return found;
}

void insist(std::int64_t patience, const std::function<std::uint64_t()>& reached, const std::function<void()>& attempt) {
  std::uint64_t best = reached();
  for (int idle = 0;;) {
    try {
      return attempt();
    } catch (const io::http::Broken&) {
      const std::uint64_t now = reached();
      idle = now > best ? 0 : idle + 1;
      best = std::max(best, now);
      if (idle == idle_tries) throw;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(patience) / 30 * (1 << idle)));
  }
}

Hub::Hub(std::string endpoint, std::string token, std::int64_t patience)
    : endpoint_(std::move(endpoint)), token_(std::move(token)), patience_(patience) {
  while (endpoint_.ends_with('/')) endpoint_.pop_back();
  const std::string server = io::http::server_of(endpoint_);
  if ((!server.starts_with("https://") && !server.starts_with("http://")) ||
      endpoint_.find_first_of("?#@\" \\") != endpoint_.npos)
    throw UserError(fmt::format("{}: an endpoint is the address of a hub, https://HOST", visible(io::http::shown_url(endpoint_))),
                    "say it with --endpoint or HF_ENDPOINT; without them it is https://huggingface.co");
  if (std::ranges::any_of(token_,
                          [](char c) { return c <= ' ' || c == '"' || c == '\\' || static_cast<unsigned char>(c) >= 0x7F; }))
    throw UserError("HF_TOKEN has a character that no token has", "copy the token again, without blanks or quotes");
  const std::string host = server.substr(server.find("://") + 3), name = host.substr(0, host.rfind(':'));
  const bool near = name == "localhost" || name == "127.0.0.1" || name == "[::1]";
  if (!token_.empty() && server.starts_with("http:") && !near)
    throw UserError(fmt::format("{}: HF_TOKEN would go there unencrypted", endpoint_), "use https, or unset HF_TOKEN");
}

io::http::Request Hub::request(const std::string& url) const {
  return {.url = url, .token = token_, .patience = patience_, .agent = fmt::format("lockstep/{}", kVersion)};
}

io::http::Request Hub::request_for(const std::string& model, const std::string& commit, const HubFile& file) const {
  return request(fmt::format("{}/{}/resolve/{}/{}", endpoint_, model, commit, url_part(file.name)));
}

void Hub::demand_answer(const io::http::Head& head, const std::string& model, const std::string& what) const {
  const std::string *type = head.find("content-type"), *said = head.find("x-error-message");
  const std::string words = said != nullptr ? fmt::format(" ({})", visible(said->substr(0, 200))) : "";
  const std::string asked = fmt::format("{}: {} answers {} to {}{}", model, endpoint_, head.status, what, words);
  if (head.status == 200 || head.status == 206) {
    if (type == nullptr || !type->starts_with("text/html")) return;
    throw UserError(fmt::format("{}: {} answers with a page of HTML to {}", model, endpoint_, what),
                    "a proxy or a page to log in stands between: open the address in a browser, or name another --endpoint");
  }
  if (head.status == 401 && !token_.empty())
    throw UserError(asked, "check the name, and HF_TOKEN: a token that is valid and may read this model");
  if (head.status == 401)
    throw UserError(asked, fmt::format("check the name; a private or gated model needs a token: export HF_TOKEN=..., made at "
                                       "{}/settings/tokens",
                                       endpoint_));
  if (head.status == 403)
    throw UserError(asked,
                    fmt::format("the model is gated: accept its conditions at {}/{}, and export the HF_TOKEN of that account",
                                endpoint_, model));
  if (head.status == 404) throw UserError(asked, "check the name of the model, and --revision: a branch, a tag or a commit");
  if (head.status == 429)
    throw io::http::Broken(asked, token_.empty() ? "wait some minutes; with HF_TOKEN more is allowed" : "wait some minutes");
  if (head.status >= 500) throw io::http::Broken(asked, "the server is in trouble: run the command again later");
  throw UserError(asked, "check --endpoint and --revision");
}

std::string Hub::text_of(const std::string& url, const std::string& model, const std::string& what, std::string& next) const {
  std::string text;
  const auto begin = [&](const io::http::Head& head) {
    demand_answer(head, model, what);
    next = next_page(head.find("link"));
    return true;
  };
  const auto take = [&](std::string_view piece) {
    text += piece;
    if (text.size() > most_answer_bytes)
      throw UserError(fmt::format("{}: {} answers to {} with more than 64 MiB", model, endpoint_, what),
                      "name another --endpoint");
  };
  insist(
      patience_, [] { return 0; },
      [&] {
        text.clear();
        io::http::get(request(url), begin, take);
      });
  return text;
}

std::string Hub::commit_of(const std::string& model, const std::string& revision) const {
  const std::string what = fmt::format("the question for revision {}", visible(revision));
  std::string next;
  const std::string text =
      text_of(fmt::format("{}/api/models/{}/revision/{}", endpoint_, model, url_part(revision)), model, what, next);
  const Json json = Json::parse(text, fmt::format("{}'s answer to {}", endpoint_, what));
  const Json* commit = json.is_object() ? json.find("sha") : nullptr;
  if (commit != nullptr && commit->is_string() && is_hex(commit->string(), 40)) return commit->string();
  throw UserError(fmt::format("{}: {} does not say which commit {} is", model, endpoint_, visible(revision)),
                  "the server is no hub of models: name another one with --endpoint");
}

std::vector<HubFile> Hub::files_of(const std::string& model, const std::string& commit) const {
  const std::string what = "the list of files";
  std::vector<HubFile> all;
  std::string next = fmt::format("{}/api/models/{}/tree/{}", endpoint_, model, commit);
  for (int page = 0; !next.empty(); ++page) {
    const std::string url = std::exchange(next, {});
    if (page == most_pages || io::http::server_of(url) != io::http::server_of(endpoint_))
      throw UserError(fmt::format("{}: {} goes on in a list of files elsewhere, or without an end", model, endpoint_),
                      "name another --endpoint");
    const std::vector<HubFile> more =
        files_of_listing(text_of(url, model, what, next), fmt::format("{}'s list of files of {}", endpoint_, model));
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace lockstep::app
