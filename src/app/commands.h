#pragma once

// Every command; each is defined in the file of its name.

#include "app/command.h"

namespace lockstep::app {

Command prepare_command();
Command train_command();
Command generate_command();
Command eval_command();
Command inspect_command();
Command convert_command();
Command bench_command();
Command plan_command();
Command verify_command();
Command report_command();
Command sweep_command();
Command launch_command();
Command doctor_command();
Command test_dist_command();

/// Benches with a file of their own.
int bench_gemm(const Arguments& arguments);
int bench_io(const Arguments& arguments);
int bench_ladder(const Arguments& arguments);
int bench_loader(const Arguments& arguments);
int bench_overhead(const Arguments& arguments);
int bench_scaling(const Arguments& arguments);

}  // namespace lockstep::app
