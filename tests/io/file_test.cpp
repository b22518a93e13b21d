#include "io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <thread>

#include "base/error.h"
#include "support/temp_folder.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Runs `call` and returns the UserError's text, empty when none is thrown.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.what();
  }
  return "";
}

TEST(FileErrors, WhatTheUserCanMendHasARemedy) {
  for (const int code : {ENOENT, EACCES, EPERM, EROFS, ENOSPC, EDQUOT, EISDIR, ENOTDIR, ENAMETOOLONG, ELOOP}) {
    const std::string text = refusal([&] { throw_file_error(code, "write", "runs/x"); });
    EXPECT_NE(text.find("cannot write runs/x: "), std::string::npos) << text;
  }
  EXPECT_THROW(throw_file_error(EIO, "write", "runs/x"), SystemError);
  EXPECT_THROW(throw_file_error(EMFILE, "read", "runs/x"), SystemError);
}

TEST(FileErrors, WhatCannotBeLookedAtIsNoAnswer) {
  const TempFolder folder;
  replace_file(folder / "file", "");
  EXPECT_TRUE(io::exists(folder / "file") && !is_folder(folder / "file") && is_folder(folder.path()));
  EXPECT_FALSE(io::exists(folder / "none") || io::exists(folder / "file/below") || is_folder(folder / "none/below"));
  EXPECT_EQ(why_no_folder(folder.path()), "");
  EXPECT_EQ(why_no_folder(folder / "none"), "there is no such folder");
  EXPECT_EQ(why_no_folder(folder / "file"), "it is no folder");
  const fs::path long_name = folder / std::string(300, 'n'), circle = folder / "circle";
  fs::create_symlink("circle", circle);
  for (const fs::path& path : {long_name, circle}) {
    EXPECT_NE(refusal([&] { (void)io::exists(path); }).find("cannot look at " + path.string()), std::string::npos);
    EXPECT_FALSE(refusal([&] { (void)is_folder(path); }).empty());
  }
  EXPECT_EQ(why_no_folder(long_name), "File name too long");
}

TEST(FileAccess, WritesAtOffsetsAndReadsBack) {
  const TempFolder folder;
  File file = File::create(folder / "data");
  file.resize(10);
  file.write_at(6, bytes_of("6789"));
  file.write_at(0, bytes_of("012345"));
  file.sync();
  file.close();
  const File back = File::open_to_read(folder / "data");
  EXPECT_EQ(back.size(), 10U);
  std::array<std::byte, 4> part{};
  back.read_at(5, part);
  EXPECT_EQ(text_of(part), "5678");
  EXPECT_EQ(read_file(folder / "data"), "0123456789");
}

TEST(FileAccess, AnExistingFileIsWrittenWhereItIs) {
  const TempFolder folder;
  replace_file(folder / "data", "0123456789");
  File::open_to_write(folder / "data").write_at(3, bytes_of("xy"));
  EXPECT_EQ(read_file(folder / "data"), "012xy56789");
  EXPECT_NE(refusal([&] { File::open_to_write(folder / "none"); }).find("No such file"), std::string::npos);
}

TEST(FileAccess, ReadingPastTheEndSaysWhere) {
  const TempFolder folder;
  replace_file(folder / "short", "abc");
  const File file = File::open_to_read(folder / "short");
  std::array<std::byte, 8> out{};
  EXPECT_NE(refusal([&] { file.read_at(1, out); }).find("ends at byte 3, 6 bytes too soon"), std::string::npos);
}

TEST(FileAccess, MissingFilesAndFoldersInPlaceOfFiles) {
  const TempFolder folder;
  const Path missing = folder / "none";
  for (const std::string& text : {refusal([&] { File::open_to_read(missing); }), refusal([&] { MappedFile{missing}; }),
                                  refusal([&] { read_file(missing); }), refusal([&] { replace_file(missing / "x", "y"); }),
                                  refusal([&] { sync_folder(missing); })}) {
    EXPECT_NE(text.find("No such file"), std::string::npos) << text;
    EXPECT_NE(text.find(missing.string()), std::string::npos) << text;
  }
  for (const std::string& text :
       {refusal([&] { File::open_to_read(folder.path()); }), refusal([&] { MappedFile{folder.path()}; }),
        refusal([&] { read_file(folder.path()); }), refusal([&] { File::create(folder.path()); })}) {
    EXPECT_NE(text.find("Is a directory"), std::string::npos) << text;
  }
}

TEST(FileAccess, AFullDiskIsTheUsersError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  File full = File::create("/dev/full");
  EXPECT_NE(refusal([&] { full.write_at(0, bytes_of("x")); }).find("No space left"), std::string::npos);
}

TEST(FileAccess, ClosedFilesAreRefusedBySystem) {
  const TempFolder folder;
  File file = File::create(folder / "x");
  file.close();
  EXPECT_NO_THROW(file.close());
  std::array<std::byte, 1> one{};
  EXPECT_THROW(file.write_at(0, one), SystemError);
  EXPECT_THROW(file.read_at(0, one), SystemError);
  EXPECT_THROW(file.resize(1), SystemError);
  EXPECT_THROW(file.sync(), SystemError);
  EXPECT_THROW(static_cast<void>(file.size()), SystemError);
}

TEST(FileReplacement, KeepsTheOldFileUntilCommit) {
  const TempFolder folder;
  const Path path = folder / "manifest.json";
  replace_file(path, "old");
  {
    Replacement abandoned(path);
    abandoned.file().write_at(0, bytes_of("half"));
    EXPECT_TRUE(fs::exists(folder / "manifest.json.partial"));
  }
  EXPECT_FALSE(fs::exists(folder / "manifest.json.partial"));
  EXPECT_EQ(read_file(path), "old");
  Replacement replacement(path);
  replacement.file().write_at(0, bytes_of("new"));
  EXPECT_EQ(read_file(path), "old");
  replacement.commit();
  EXPECT_EQ(read_file(path), "new");
  EXPECT_FALSE(fs::exists(folder / "manifest.json.partial"));
  EXPECT_THROW(replacement.commit(), BrokenRule);
}

TEST(FileReplacement, AFullDiskKeepsTheOldFile) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const TempFolder folder;
  const Path path = folder / "manifest.json";
  replace_file(path, "old");
  fs::create_symlink("/dev/full", folder / "manifest.json.partial");
  EXPECT_NE(refusal([&] { replace_file(path, "new"); }).find("No space left"), std::string::npos);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_FALSE(fs::is_symlink(folder / "manifest.json.partial"));
  EXPECT_TRUE(fs::exists("/dev/full"));
}

TEST(FileReplacement, RefusesToReplaceAFolder) {
  const TempFolder folder;
  fs::create_directory(folder / "x");
  EXPECT_NE(refusal([&] { replace_file(folder / "x", "y"); }).find("Is a directory"), std::string::npos);
  EXPECT_TRUE(fs::is_directory(folder / "x"));
}

TEST(FileMapping, SeesTheWholeFile) {
  const TempFolder folder;
  std::string content(100000, 'a');
  content.back() = 'z';
  replace_file(folder / "big", content);
  MappedFile mapped(folder / "big");
  EXPECT_EQ(text_of(mapped.bytes()), content);
  const MappedFile moved = std::move(mapped);
  EXPECT_EQ(moved.size(), content.size());
  std::array<std::byte, 3> out{};
  moved.read_at(99997, out);
  EXPECT_EQ(text_of(out), "aaz");
  for (const std::uint64_t from : {99998U, 200000U}) {
    const std::string text = refusal([&] { moved.read_at(from, out); });
    EXPECT_NE(text.find("big ends at byte 100000"), std::string::npos) << text;
  }
  replace_file(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
}

TEST(FileReading, GrowsWithPipesToo) {
  const TempFolder folder;
  const Path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string content(300000, 'x');
  std::jthread writer([&] {
    std::FILE* file = std::fopen(pipe.c_str(), "w");
    std::fwrite(content.data(), 1, content.size(), file);
    std::fclose(file);
  });
  EXPECT_EQ(read_file(pipe), content);
}

// Nothing waits for one who writes.
TEST(FileReading, ADocumentIsARegularFileOfItsSize) {
  const TempFolder folder;
  const Path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& text : {refusal([&] { File::open_to_read(pipe); }), refusal([&] { FileBytes{pipe}; }),
                                  refusal([&] { read_document(pipe, 100); })})
    EXPECT_NE(text.find("it is a pipe, and must be a regular file"), std::string::npos) << text;
  EXPECT_NE(refusal([&] { File::open_to_read("/dev/zero"); }).find("it is a device"), std::string::npos);
  EXPECT_TRUE(is_special(pipe));
  EXPECT_FALSE(is_special(folder.path()) || is_special(folder / "none"));
  replace_file(folder / "text", "12345");
  EXPECT_EQ(read_document(folder / "text", 5), "12345");
  EXPECT_NE(refusal([&] { read_document(folder / "text", 4); }).find("has at most 4"), std::string::npos);
}

TEST(FileReading, AFileThatShrinksGivesAnError) {
  const TempFolder folder;
  replace_file(folder / "data", std::string(100000, 'x'));
  const FileBytes bytes(folder / "data");
  std::array<std::byte, 10> out{};
  bytes.read_at(99990, out);
  fs::resize_file(folder / "data", 5000);
  EXPECT_EQ(bytes.size(), 100000U);
  EXPECT_NE(refusal([&] { bytes.read_at(99990, out); }).find("10 bytes too soon"), std::string::npos);
  EXPECT_NO_THROW(bytes.read_at(0, out));
}

TEST(Folders, AreMadeWithThoseAbove) {
  const TempFolder folder;
  make_folders(folder / "a/b/c");
  make_folders(folder / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  replace_file(folder / "a/file", "");
  EXPECT_NE(refusal([&] { make_folders(folder / "a/file"); }), "");
  EXPECT_NE(refusal([&] { make_folders(folder / "a/file/b"); }), "");
}

}  // namespace
}  // namespace lockstep::io
