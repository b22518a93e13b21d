// Checkpoints in the memory of hosts: what each host has of one, and what a start makes of that.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>

#include "checkpoint/copies/exchange.h"
#include "checkpoint/copies/restore.h"
#include "checkpoint/sample.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "comm/thread/thread_world.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using comm::Communicator;

constexpr std::int64_t rows = 64, columns = part_bytes / 4 / 16;  // a rank's half of the columns makes two parts

/// Two ranks on a host each, which hold half of the columns of one tensor and half of the elements of another.
class CopiesOfTwoHosts : public testing::Test {
 protected:
  CopiesOfTwoHosts() {
    std::iota(wide_.begin(), wide_.end(), 0.0F);
    std::iota(flat_.begin(), flat_.end(), 7.0F);
    const std::vector<FileTable> files = tables();
    Writer writer(*self_, run_.path(), 3, files);
    writer.write(whole(), team_);
    last_.folder = writer.commit(sample_manifest(3)).folder;
    last_.manifest = read_manifest(last_.folder);
  }
  static std::vector<FileTable> tables() {
    return {{std::string(model_file), {{"wide", Shape{rows, columns}}}},
            {std::string(optimizer_file), {{"wide.exp_avg", Shape{rows * columns}}}}};
  }
  std::vector<HeldTensor> whole() {
    return {hold_whole("wide", view(std::span(wide_), Shape{rows, columns})),
            hold_whole("wide.exp_avg", view(std::span(flat_), Shape{rows * columns}))};
  }
  fs::path place(int host) const { return hosts_.path() / std::to_string(host); }
  fs::path copy(int host, std::int64_t step = 5) const { return place(host) / "checkpoints" / folder_name(step); }

  /// What a rank has, as its piece tells it.
  Piece write_own(Communicator& world, std::int64_t step, const std::string& follows) {
    const std::int64_t half = columns / 2, first = world.rank() * half;
    std::vector<float> mine;
    for (std::int64_t row = 0; row < rows; ++row)
      mine.insert(mine.end(), wide_.begin() + row * columns + first, wide_.begin() + row * columns + first + half);
    const std::int64_t elements = rows * half;
    const std::vector<HeldTensor> held{
        {{"wide", Shape{rows, columns}}, {{first, view(std::span(mine), Shape{rows, half}), columns}}},
        {{"wide.exp_avg", Shape{rows * columns}},
         {{world.rank() * elements,
           view(std::span(flat_).subspan(static_cast<std::size_t>(world.rank() * elements), static_cast<std::size_t>(elements)),
                Shape{elements})}}}};
    const std::unique_ptr<Communicator> host = world.split(world.rank(), 0);
    make_place(place(world.rank()));
    Writer writer(*host, place(world.rank()), step, tables(), false);
    Piece piece{.rank = world.rank(), .ranks = world.size(), .follows = follows, .parts = {}};
    for (const Writer::Part& part : writer.parts_of(held)) {
      const Tensor& values = part.range.values;
      const bool strided = part.range.stride != 0;
      piece.parts.push_back({writer.name_of(part.place), part.range.first, strided ? values.rows() : 1,
                             strided ? values.columns() : values.elements(), part.range.stride, writer.write(part)});
    }
    writer.publish(writer.completed(sample_manifest(step), world));
    write_piece(copy(world.rank(), step), piece);
    return piece;
  }
  void make_copy(bool exchanges, std::int64_t step = 5, const std::string& follows = "") {
    comm::run_ranks(2, {.timeout = 60}, [&](Communicator& world) {
      const Piece piece = write_own(world, step, follows.empty() ? mark_of(last_.folder) : follows);
      if (!exchanges) return;
      std::vector<std::uint8_t> room(Exchange::least_parts * part_bytes);
      const Neighbours neighbours = neighbours_of({"a", "b"}, world.rank());
      Exchange exchange(world, neighbours, copy(world.rank(), step), piece, view(std::span(room), Shape{std::ssize(room)}), 0.01);
      int turns = 1;
      while (!exchange.advance()) ++turns;
      EXPECT_EQ(turns, 6);  // four parts, one after the other
    });
  }
  /// On as many ranks as `hosts`, each of which sees that host's memory.
  FoundCopies restore(const std::vector<int>& hosts) {
    FoundCopies found;
    comm::run_ranks(static_cast<int>(hosts.size()), {.timeout = 60}, [&](Communicator& world) {
      Team team(1);
      const FoundCopies mine =
          restore_copies(world, place(hosts[static_cast<std::size_t>(world.rank())]), run_.path(), last_, team);
      if (world.rank() == 0) found = mine;
    });
    return found;
  }
  void expect_restored(const FoundCopies& found) {
    ASSERT_TRUE(found.restored);
    EXPECT_EQ(found.restored->folder, run_.path() / "checkpoints/step_5");
    const TempFolder other;
    Writer writer(*self_, other.path(), 5, tables());
    writer.write(whole(), team_);
    const io::Path saved = writer.commit(sample_manifest(5)).folder;
    for (const auto name : {model_file, optimizer_file, manifest_file})
      EXPECT_TRUE(io::read_file(saved / name) == io::read_file(found.restored->folder / name)) << name;
  }
  void expect_ignored(const FoundCopies& found, const std::string& why) {
    EXPECT_FALSE(found.restored);
    EXPECT_TRUE(std::ranges::any_of(found.ignored, [&](const std::string& line) { return line.find(why) != line.npos; }))
        << (found.ignored.empty() ? "nothing was ignored" : found.ignored.back());
    EXPECT_FALSE(io::exists(run_.path() / "checkpoints/step_5"));
  }
  /// A byte of a file that is not zero becomes another one.
  static void damage(const fs::path& path) {
    std::string text = io::read_file(path);
    for (std::size_t at = text.size(); at-- > 0;) {
      if (text[at] == 0) continue;
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(text[at] ^ 1));
      return;
    }
  }

  std::unique_ptr<Communicator> self_ = comm::make_self();
  TempFolder run_, hosts_;
  Team team_{2};
  std::vector<float> wide_ = std::vector<float>(rows * columns), flat_ = wide_;
  Choice last_;
};

TEST_F(CopiesOfTwoHosts, AreTheCheckpointThatASaveWouldHaveWritten) {
  make_copy(false);
  expect_restored(restore({0, 1}));
  EXPECT_TRUE(restore({0, 1}).ignored.empty());
}

TEST_F(CopiesOfTwoHosts, EitherHostHasAllOfThem) {
  make_copy(true);
  expect_restored(restore({1}));
  io::remove_folder(run_.path() / "checkpoints/step_5");
  expect_restored(restore({0, 0, 0}));
}

TEST_F(CopiesOfTwoHosts, TakeNoMoreThanTheirPieces) {
  make_copy(false);
  struct Space {
    static std::uintmax_t taken(const fs::path& path) {
      struct stat found{};
      EXPECT_EQ(::stat(path.c_str(), &found), 0);
      return static_cast<std::uintmax_t>(found.st_blocks) * 512;
    }
  };
  const fs::path file = copy(0) / optimizer_file;
  EXPECT_LE(Space::taken(file), fs::file_size(file) * 3 / 4);
}

TEST_F(CopiesOfTwoHosts, ADamagedPieceIsTakenFromTheOtherHost) {
  make_copy(true);
  damage(copy(1) / optimizer_file);
  const FoundCopies found = restore({0, 1});
  expect_restored(found);
  ASSERT_EQ(found.ignored.size(), 1U);
  EXPECT_TRUE(found.ignored[0].starts_with("rank 1 ignores a piece of a copy: ")) << found.ignored[0];
}

TEST_F(CopiesOfTwoHosts, DamagedOnesAreIgnored) {
  make_copy(false);
  damage(copy(1) / optimizer_file);
  const FoundCopies found = restore({0, 1});
  expect_ignored(found, "rank 1 ignores a piece of a copy: ");
  expect_ignored(found, "tensor \"wide.exp_avg\" has other bytes");
  expect_ignored(found, "the copy of step 5");
}

TEST_F(CopiesOfTwoHosts, PartialOnesAreIgnored) {
  make_copy(false);
  expect_ignored(restore({0}), "is not whole: 1 of its 2 pieces lie on no host");
  fs::remove(copy(1) / "piece_1.json");
  expect_ignored(restore({0, 1}), "is not whole: 1 of its 2 pieces lie on no host");
}

TEST_F(CopiesOfTwoHosts, DamagedTextsAreIgnored) {
  make_copy(false);
  damage(copy(1) / "piece_1.json");
  expect_ignored(restore({0, 1}), "piece_1.json: it was damaged");
  make_copy(false);
  damage(copy(0) / manifest_file);
  expect_ignored(restore({0, 1}), "manifest.json");
}

TEST_F(CopiesOfTwoHosts, ThoseOfAnotherRunAreIgnored) {
  make_copy(true, 5, "0123456789abcdef");
  expect_ignored(restore({0, 1}), "follows another checkpoint than " + last_.folder.string());
}

TEST_F(CopiesOfTwoHosts, TheNewestWholeOneIsTaken) {
  make_copy(false);
  make_copy(false, 9);
  fs::remove(copy(1, 9) / "piece_1.json");
  make_copy(false, 2);
  expect_restored(restore({0, 1}));
}

TEST_F(CopiesOfTwoHosts, ThoseOlderThanTheLastCheckpointAreIgnored) {
  make_copy(true, 2);
  expect_ignored(restore({0, 1}), "the copy of step 2");
}

TEST_F(CopiesOfTwoHosts, OfManyCopiesOneIsWholeOnlyWithItself) {
  make_copy(false);
  flat_.front() += 1;  // another copy of the same step: of a start that went another way
  comm::run_ranks(2, {.timeout = 60}, [&](Communicator& world) {
    if (world.rank() == 1) io::remove_folder(place(1));
    world.barrier();
    const fs::path kept = hosts_.path() / "kept";
    if (world.rank() == 0) fs::rename(place(0), kept);
    world.barrier();
    write_own(world, 5, mark_of(last_.folder));
    world.barrier();
    if (world.rank() != 0) return;
    io::remove_folder(place(0));
    fs::rename(kept, place(0));
  });
  expect_ignored(restore({0, 1}), "is not whole: 1 of its 2 pieces");
}

TEST(CopyPlace, AnotherUsersFolderIsRefused) {
  const TempFolder folder;
  io::replace_file(folder / "file", "");
  EXPECT_NE(complaint_of([&] { make_place(folder / "file"); }).find("this is not a folder of this user"), std::string::npos);
  fs::create_symlink(folder.path(), folder / "link");
  EXPECT_NE(complaint_of([&] { make_place(folder / "link"); }).find("this is not a folder of this user"), std::string::npos);
  remove_copies(folder / "link");
  EXPECT_TRUE(io::exists(folder / "file"));
  make_place(folder / "new");
  EXPECT_EQ(fs::status(folder / "new").permissions(), fs::perms::owner_all);
  remove_copies(folder / "new");
  EXPECT_FALSE(io::exists(folder / "new"));
}

TEST(CopyPlace, ANeighbourIsOnTheNextHost) {
  const std::vector<std::string> hosts{"a", "a", "b", "b", "c", "c"};
  const Neighbours third = neighbours_of(hosts, 3);
  EXPECT_EQ(third.hosts, 3);
  EXPECT_EQ(third.host, 1);
  EXPECT_EQ(third.to, 5);
  EXPECT_EQ(third.from, 1);
  EXPECT_EQ(neighbours_of(hosts, 4).to, 0);
  EXPECT_EQ(neighbours_of({"a", "b", "a", "b"}, 2).to, 3);
  EXPECT_EQ(neighbours_of({"a", "a"}, 1).hosts, 1);
}

TEST(CopyPlace, HostsWithDifferentNumbersOfRanksAreNamed) {
  EXPECT_NE(complaint_of([] { neighbours_of({"a", "a", "b"}, 0); }).find("host a has 2 ranks and host b has 1"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::checkpoint
