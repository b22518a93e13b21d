#include "app/cli/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <initializer_list>

#include "base/text/paint.h"
#include "comm/mpi/mpi_job.h"

namespace lockstep::app {

void set_up_process() {
  for (const int signal : {SIGXFSZ, SIGPIPE}) std::signal(signal, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest free number. Writes to a closed standard output go on failing.
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  }
  // mpiexec gives every rank a terminal, whatever it writes to itself.
  if (comm::find_mpi_job() && std::getenv("CLICOLOR_FORCE") == nullptr) choose_colours("never");
}

bool is_first_process() {
  const auto job = comm::find_mpi_job();
  return !job || job->rank == 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace lockstep::app
