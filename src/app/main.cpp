// The list of commands, in the order of a first day's work.

#include <csignal>

#include "app/commands.h"

int main(int argc, char** argv) {
  using namespace lockstep::app;
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond the limit is an error with a remedy, not the end
  const std::vector<Command> commands = {prepare_command(), train_command(),    generate_command(), eval_command(),
                                         inspect_command(), convert_command(),  bench_command(),    launch_command(),
                                         doctor_command(),  test_dist_command()};
  return run_program(commands, {argv + 1, argv + argc});
}
