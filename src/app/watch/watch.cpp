// `lockstep watch RUN...`: a report's page that follows its runs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/watch/watch_server.h"
#include "base/error.h"
#include "base/text/visible.h"
#include "io/file.h"
#include "train/stop_signal.h"

namespace lockstep::app {
namespace {

int watch(const Arguments& arguments) {
  std::vector<std::string> folders;
  std::string address = "127.0.0.1";
  std::int64_t port = watch_port;
  CommandLine line("watch",
                   "Show runs in a browser while they go on: the page of lockstep report, which follows what they write. Ctrl-C "
                   "ends it.");
  line.positionals("RUN", folders, "folders of runs, which may not be there yet, or of many: runs stands for all runs in it");
  line.option("--host", address, "ADDRESS", "where to listen; 0.0.0.0: at every address of this machine");
  line.option("--port", port, "N", "0: any that is free", 65535);
  line.note(
      "examples:\n"
      "  lockstep watch runs/first\n"
      "  lockstep watch runs --port 9000\n"
      "docs/report.md says what is on the page.");
  if (!line.parse(arguments)) return 0;
  if (port < 0) throw UserError(fmt::format("--port {}: must be from 0 to 65535", port), fmt::format("--port {}", watch_port));
  for (const std::string& folder : folders) {
    if (io::exists(folder) && !io::is_folder(folder))
      throw UserError(fmt::format("{} is a file, and a run is a folder", folder),
                      "a folder that lockstep train writes, as runs/NAME");
  }
  const train::StopSignal signal;
  const WatchServer server(folders, address, static_cast<int>(port));
  fmt::print(stderr, "{} at {}\n", visible(fmt::format("{}", fmt::join(folders, ", "))), server.url());
  while (!signal.received()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return 0;
}

}  // namespace

Command watch_command() { return {"watch", "show runs in a browser while they go on", watch}; }

}  // namespace lockstep::app
