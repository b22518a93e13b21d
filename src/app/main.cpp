// The list of commands, in the order of a first day's work.

#include "app/cli/commands.h"
#include "app/cli/process.h"
#include "app/help/help.h"

int main(int argc, char** argv) {
  using namespace lockstep::app;
  set_up_process();
  const std::vector<Command> commands =
      with_help({prepare_command(), train_command(),  generate_command(), chat_command(),     serve_command(), eval_command(),
                 inspect_command(), pull_command(),   convert_command(),  template_command(), bench_command(), plan_command(),
                 verify_command(),  demo_command(),   report_command(),   watch_command(),    sweep_command(), launch_command(),
                 drill_command(),   doctor_command(), test_dist_command()});
  return run_program(commands, {argv + 1, argv + argc});
}
