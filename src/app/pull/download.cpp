#include "app/pull/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "base/number_text.h"
#include "base/terminal.h"
#include "base/text/visible.h"
#include "base/timer.h"
#include "base/units.h"
#include "io/folder_entries.h"
#include "io/sha256.h"
#include "io/space.h"

namespace lockstep::app {
namespace {

const std::string other_place = "remove it, or choose another folder with --out";

io::Path part_of(io::Path path) { return path += ".part"; }

io::Digest digest_of(const HubFile& file) {
  io::Digest digest(file.hash.size() == 64 ? io::DigestKind::sha256 : io::DigestKind::sha1);
  if (file.hash.size() == 64) return digest;
  std::string head = fmt::format("blob {}", file.size);  // git names a file by this, a zero and the file
  head += '\0';
  digest.update(std::as_bytes(std::span(head)));
  return digest;
}

std::uint64_t size_of_part(const io::Path& path, const HubFile& file) {
  if (!io::exists(path)) return 0;
  const std::uint64_t size = io::File::open_to_write(path).size();
  return size <= file.size ? size : 0;
}

void say_file(const HubFile& file, const std::string& how) {
  say(stdout, fmt::format("{:<36} {:>10}  {}\n", visible(file.name), format_bytes(file.size), how));
}

}  // namespace

struct Download::Part {
  Part(const io::Path& path, const HubFile& whole)
      : had(size_of_part(path, whole)),
        bytes(had),
        file(io::exists(path) ? io::File::open_to_write(path) : io::File::create(path)),
        digest(digest_of(whole)),
        bar(stderr, visible(whole.name), static_cast<double>(whole.size - had)) {
    file.resize(bytes);
    update_from(digest, file, bytes);
  }
  void restart(const HubFile& whole) {
    file.resize(0);
    digest = digest_of(whole);
    bytes = 0;
  }
  void add(std::string_view piece) {
    file.write_at(bytes, std::as_bytes(std::span(piece)));
    digest.update(std::as_bytes(std::span(piece)));
    bytes += piece.size();
    fetched += static_cast<double>(piece.size());
    bar.update(static_cast<double>(bytes) - static_cast<double>(had), fmt::format("{}  {}", format_bytes(bytes), rate()));
  }
  std::string rate() const { return fmt::format("{:.1f} MB/s", fetched * 1e-6 / std::max(now_seconds() - started, 1e-3)); }

  std::uint64_t had, bytes;
  io::File file;
  io::Digest digest;
  ProgressBar bar;
  double started = now_seconds(), fetched = 0;
};

Download::Download(const Hub& hub, std::string model, std::string commit, io::Path folder)
    : hub_(hub), model_(std::move(model)), commit_(std::move(commit)), folder_(std::move(folder)) {}

bool Download::is_there(const HubFile& file) const {
  const io::Path path = folder_ / file.name;
  if (!io::exists(path)) return false;
  const io::File old = io::File::open_to_read(path);
  if (old.size() != file.size)
    throw UserError(fmt::format("{} is there with {} bytes, and {} has it with {}", path.string(), old.size(), model_, file.size),
                    other_place);
  io::Digest digest = digest_of(file);
  update_from(digest, old, file.size);
  if (digest.hex() != file.hash)
    throw UserError(fmt::format("{} is there, and differs from the file of {}", path.string(), model_), other_place);
  return true;
}

void Download::bring(const std::vector<HubFile>& files) {
  std::vector<HubFile> missing;
  std::uint64_t needed = 0;
  for (const HubFile& file : files) {
    ++files_;
    bytes_ += file.size;
    if (is_there(file)) {
      say_file(file, "is there");
    } else {
      missing.push_back(file);
      needed += file.size - size_of_part(part_of(folder_ / file.name), file);
    }
  }
  io::demand_space(folder_, needed, model_);
  for (const HubFile& file : missing) bring(file);
}

void Download::bring(const HubFile& file) {
  const io::Path path = folder_ / file.name, partial = part_of(path);
  Part part(partial, file);
  const auto fetch_all = [&] { insist(hub_.patience(), [&] { return part.bytes; }, [&] { fetch(file, part); }); };
  fetch_all();
  std::string hash = part.digest.hex();
  if (hash != file.hash && part.had > 0) {  // the part may be of another revision
    part.restart(file);
    part.had = 0;
    fetch_all();
    hash = part.digest.hex();
  }
  part.bar.finish();
  if (hash != file.hash) {
    std::error_code none;
    std::filesystem::remove(partial, none);
    throw UserError(fmt::format("{}: what came as {} has the checksum {}, and {} lists {}", model_, visible(file.name), hash,
                                hub_.endpoint(), file.hash),
                    "pull again; where it stays so, the server or a proxy changes files: name another --endpoint");
  }
  part.file.sync();
  part.file.close();
  std::error_code failed;
  std::filesystem::rename(partial, path, failed);
  if (failed) io::throw_file_error(failed.value(), "name", path);
  io::sync_folder(folder_);
  say_file(file, part.fetched < 1e6 ? "done" : part.rate());
}

void Download::fetch(const HubFile& file, Part& part) const {
  if (part.bytes == file.size) return;
  io::http::Request request = hub_.request_for(model_, commit_, file);
  request.offset = part.bytes;
  io::http::get(
      request, [&](const io::http::Head& head) { return begin(head, file, part); },
      [&](std::string_view piece) {
        if (piece.size() > file.size - part.bytes) refuse_size(file, "more");
        part.add(piece);
      });
  if (part.bytes < file.size)
    throw io::http::Broken(fmt::format("{}: {} ended at byte {} of {}", model_, visible(file.name), part.bytes, file.size),
                           "run the command again: it goes on where it stopped");
}

bool Download::begin(const io::http::Head& head, const HubFile& file, Part& part) const {
  if (head.status == 416) {  // the server has less than the part
    part.restart(file);
    throw io::http::Broken(fmt::format("{}: {} does not go on with {}", model_, hub_.endpoint(), visible(file.name)),
                           "run the command again");
  }
  hub_.demand_answer(head, model_, visible(file.name));
  if (head.status == 200 && part.bytes > 0) part.restart(file);
  const std::string *range = head.find("content-range"), *length = head.find("content-length");
  if (head.status == 206) {
    const std::string told = range != nullptr ? *range : "no range";
    const bool here = told.starts_with(fmt::format("bytes {}-", part.bytes));
    if (!here || !(told.ends_with(fmt::format("/{}", file.size)) || told.ends_with("/*"))) refuse_size(file, told);
  } else if (length != nullptr && head.find("content-encoding") == nullptr && *length != fmt::format("{}", file.size)) {
    refuse_size(file, *length);
  }
  return true;
}

void Download::refuse_size(const HubFile& file, const std::string& said) const {
  throw UserError(fmt::format("{}: {} has {} bytes by the hub's list, and {} by the answer", model_, visible(file.name),
                              file.size, visible(said)),
                  "the server is at fault: pull again later, or name another --endpoint");
}

void refuse_strangers(const io::Path& folder, const std::vector<HubFile>& all, const std::string& model) {
  std::error_code unknown;
  for (const io::Path& path : io::entries_of(folder, unknown)) {
    const std::string name = path.filename().string();
    if (!is_part_of_model(name) || std::ranges::find(all, name, &HubFile::name) != all.end()) continue;
    throw UserError(fmt::format("{} is there, and {} has no such file", path.string(), model), other_place);
  }
}

}  // namespace lockstep::app
