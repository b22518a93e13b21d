#pragma once

// Every command; each is defined in the file of its name.

#include "app/cli/command.h"

namespace lockstep::app {

Command prepare_command();
Command train_command();
Command generate_command();
Command serve_command();
Command chat_command();
Command eval_command();
Command inspect_command();
Command pull_command();
Command convert_command();
Command template_command();
Command bench_command();
Command plan_command();
Command verify_command();
Command demo_command();
Command drill_command();
Command report_command();
Command watch_command();
Command sweep_command();
Command launch_command();
Command doctor_command();
Command test_dist_command();

}  // namespace lockstep::app
