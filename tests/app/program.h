#pragma once

// The program itself, as a process of its own.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/file.h"
#include "support/patience.h"
#include "support/temp_folder.h"

namespace lockstep::app {

inline std::string program() { return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lockstep").string(); }

inline pid_t start_program(std::vector<std::string> words, posix_spawn_file_actions_t& streams) {
  words.insert(words.begin(), program());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, pointers[0], &streams, nullptr, pointers.data(), environ), 0);
  return child;
}

inline int end_of(pid_t child) {
  const int status = support::status_of(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Ended {
  int code;
  std::string err;
};

/// Runs the program to its end with `output` as its standard output (-1: closed).
inline Ended run_into(int output, const std::vector<std::string>& words) {
  const TempFolder folder;
  const std::string err = (folder / "err").string();
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_addopen(&streams, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  if (output >= 0) {
    posix_spawn_file_actions_adddup2(&streams, output, STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addclose(&streams, STDOUT_FILENO);
  }
  const int code = end_of(start_program(words, streams));
  posix_spawn_file_actions_destroy(&streams);
  return {code, io::read_file(err)};
}

}  // namespace lockstep::app
