// The list of commands, in the order of a first day's work.

#include "app/command.h"

int main(int argc, char** argv) {
  const std::vector<lockstep::app::Command> commands = {};
  return lockstep::app::run_program(commands, {argv + 1, argv + argc});
}
