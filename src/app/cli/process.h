#pragma once

// The process that the program is, and its host.

#include <string>

namespace lockstep::app {

/// A file that grows beyond its limit and a pipe without a reader make the write fail, instead of ending the process by a signal.
/// The ends of children are told, whatever a parent left ignored. A closed standard input, output or error is opened on
/// /dev/null. Otherwise a file of ours would get its number, and what is meant for a person. Ranks of a launcher write without
/// colours.
void set_up_process();

/// Whether this process is the job's only one, or the one of rank 0: it says what concerns them all.
bool is_first_process();

/// This machine's name, or "localhost".
std::string host_name();

}  // namespace lockstep::app
