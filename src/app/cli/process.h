#pragma once

// The process that the program is, and its host.

#include <string>

namespace lockstep::app {

/// A file that grows beyond its limit and a pipe without a reader become errors of the call that writes, instead of signals that
/// end the process; how children end is told, whatever a parent left ignored; where standard input, output or error is closed it
/// is opened on /dev/null, so that no file of ours gets its number, and with it what was meant for a person;
/// ranks of a launcher write without colours.
void set_up_process();

/// Whether this process is the job's only one, or the one of rank 0: it says what concerns them all.
bool is_first_process();

/// This machine's name, or "localhost".
std::string host_name();

}  // namespace lockstep::app
