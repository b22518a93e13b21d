#include "checkpoint/copies/restore.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "comm/agreement.h"
#include "comm/text.h"

namespace lockstep::checkpoint {
namespace {

/// What tells a copy from others: the step, its manifest, how many ranks wrote it, and which checkpoint it follows.
struct CopyName {
  std::int64_t step = 0;
  std::string mark, follows;
  int ranks = 1;
  auto operator<=>(const CopyName&) const = default;
};
/// Ranks that see each piece.
using Holders = std::vector<std::vector<int>>;
using AllCopies = std::map<CopyName, Holders>;

bool is_own_folder(const io::Path& path) {
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::geteuid();
}

/// A line for each piece that lies on this host, and what cannot be read of others.
std::string list_pieces(const io::Path& place, std::vector<std::string>& damaged) {
  std::string lines;
  if (!is_own_folder(place)) return lines;
  for (const Found& found : list_checkpoints(place)) {
    if (!found.manifest) damaged.push_back(found.fault);
    if (!found.manifest) continue;
    const std::string mark = mark_of(found.folder);
    for (const io::Path& path : pieces_in(found.folder)) {
      try {
        const Piece piece = parse_piece(io::read_document(path), path.string());
        lines += fmt::format("{} {} {} {} {}\n", found.step, mark, piece.follows, piece.ranks, piece.rank);
      } catch (const UserError& error) {
        damaged.push_back(error.problems().front().message);
      }
    }
  }
  return lines;
}

AllCopies all_copies(const std::vector<std::string>& lines_of_ranks) {
  AllCopies all;
  for (std::size_t rank = 0; rank < lines_of_ranks.size(); ++rank) {
    std::istringstream lines(lines_of_ranks[rank]);
    CopyName name;
    for (std::size_t piece = 0; lines >> name.step >> name.mark >> name.follows >> name.ranks >> piece;) {
      Holders& holders = all[name];
      holders.resize(static_cast<std::size_t>(name.ranks));
      if (piece < holders.size()) holders[piece].push_back(static_cast<int>(rank));
    }
  }
  return all;
}

/// The pieces that one rank is to read.
class OwnPieces {
 public:
  OwnPieces(const io::Path& place, const CopyName& name, Team& team)
      : folder_(place / checkpoints_folder / folder_name(name.step)), team_(team) {}

  /// Why the piece is not whole; empty where it is.
  std::string fault_of(std::size_t piece) {
    if (sound_.contains(piece)) return "";
    try {
      for_each(piece, [](const HeldTensor&) {});
    } catch (const std::exception& error) {
      return error.what();
    }
    sound_.insert(piece);
    return "";
  }
  void write(std::size_t piece, Writer& writer) {
    for_each(piece, [&](const HeldTensor& held) {
      for (const Writer::Part& part : writer.parts_of(std::span(&held, 1))) writer.write(part);
    });
  }
  std::string manifest() { return manifest_text(files().manifest()); }

 private:
  CopyFiles& files() {
    if (!files_) files_.emplace(folder_);
    return *files_;
  }
  template <class Use>
  void for_each(std::size_t piece, const Use& use) {
    const io::Path path = folder_ / fmt::format("piece_{}.json", piece);
    const Piece read = parse_piece(io::read_document(path), path.string());
    const CopyFiles& all = files();
    team_.for_each(std::ssize(read.parts), [&](std::int64_t i, int) {
      const CopiedPart& part = read.parts[static_cast<std::size_t>(i)];
      std::vector<std::byte> bytes(all.bytes_of(part));
      use(all.read(part, bytes));
    });
  }

  io::Path folder_;
  Team& team_;
  std::optional<CopyFiles> files_;
  std::set<std::size_t> sound_;
};

/// For each piece one of its holders that finds it whole; nothing where none does. Collective.
std::optional<std::vector<int>> sound_holders(comm::Communicator& world, Holders holders, OwnPieces& own,
                                              std::vector<std::string>& ignored) {
  while (std::ranges::none_of(holders, &std::vector<int>::empty)) {
    std::vector<int> chosen;
    std::string failed;
    for (std::size_t piece = 0; piece < holders.size(); ++piece) {
      chosen.push_back(holders[piece][piece % holders[piece].size()]);
      if (chosen.back() != world.rank()) continue;
      if (const std::string fault = own.fault_of(piece); !fault.empty()) failed += fmt::format("{} {}\n", piece, fault);
    }
    bool whole = true;
    for (const std::string& faults : comm::all_texts(world, failed)) {
      std::istringstream lines(faults);
      std::string fault;
      for (std::size_t piece = 0; lines >> piece && std::getline(lines, fault); whole = false) {
        std::erase(holders[piece], chosen[piece]);
        ignored.push_back(fmt::format("rank {} ignores a piece of a copy:{}", chosen[piece], fault));
      }
    }
    if (whole) return chosen;
  }
  return std::nullopt;
}

/// Collective.
SaveReport write_out(comm::Communicator& world, const io::Path& run, std::int64_t step, const std::vector<int>& chosen,
                     OwnPieces& own) {
  const bool tells = chosen.front() == world.rank();
  std::string text;
  for (std::string& told : comm::all_texts(world, tells ? own.manifest() : "")) text += told;
  const Manifest manifest = parse_manifest(text, "a copy's manifest");
  Writer writer(world, run, step, tables_of(manifest));
  comm::Attempts attempts;
  attempts.run([&] {
    for (std::size_t piece = 0; piece < chosen.size(); ++piece) {
      if (chosen[piece] == world.rank()) own.write(piece, writer);
    }
  });
  attempts.meet(world);
  return writer.commit(manifest);
}

std::string in_words(const CopyName& name, const io::Path& place) {
  return fmt::format("the copy of step {} in {}", name.step, place.string());
}

}  // namespace

FoundCopies restore_copies(comm::Communicator& world, const io::Path& place, const io::Path& run, const Choice& last,
                           Team& team) {
  std::string mark, lines, damaged;
  comm::together(world, [&] {
    if (world.rank() == 0) mark = mark_of(last.folder);
    std::vector<std::string> faults;
    lines = list_pieces(place, faults);
    for (const std::string& fault : faults) damaged += fault + "\n";
  });
  mark = comm::lead_text(world, mark);
  const AllCopies all = all_copies(comm::all_texts(world, lines));
  std::set<std::string> faults;  // ranks of a host see the same
  for (const std::string& text : comm::all_texts(world, damaged)) {
    std::istringstream told(text);
    for (std::string fault; std::getline(told, fault);) faults.insert(fault);
  }
  FoundCopies found{.restored = {}, .ignored = {faults.begin(), faults.end()}};
  for (auto copy = all.rbegin(); copy != all.rend() && !found.restored; ++copy) {
    const auto& [name, holders] = *copy;
    if (name.follows != mark || name.step <= last.manifest.step) {
      found.ignored.push_back(
          fmt::format("{} follows another checkpoint than {}: it is ignored", in_words(name, place), last.folder.string()));
      continue;
    }
    OwnPieces own(place, name, team);
    const auto chosen = sound_holders(world, holders, own, found.ignored);
    if (chosen) found.restored = write_out(world, run, name.step, *chosen, own);
    if (!chosen) {
      const auto lost = std::ranges::count_if(holders, &std::vector<int>::empty);
      found.ignored.push_back(lost > 0 ? fmt::format("{} is not whole: {} of its {} pieces lie on no host; it is ignored",
                                                     in_words(name, place), lost, name.ranks)
                                       : fmt::format("{} is damaged: it is ignored", in_words(name, place)));
    }
  }
  return found;
}

void make_place(const io::Path& place) {
  if (::mkdir(place.c_str(), 0700) != 0 && errno != EEXIST) io::throw_file_error(errno, "make the folder", place);
  if (is_own_folder(place)) return;
  throw UserError(fmt::format("{}: this is not a folder of this user", place.string()),
                  "have it removed, or go without copies: checkpoint.copies=none");
}

void remove_copies(const io::Path& place) {
  std::error_code failed;
  if (is_own_folder(place)) std::filesystem::remove_all(place, failed);
  if (failed) io::throw_file_error(failed.value(), "delete", place);
}

}  // namespace lockstep::checkpoint
