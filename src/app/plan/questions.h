#pragma once

// What `lockstep plan` can be asked: each question reads its own arguments and prints its answer.

#include "app/cli/command.h"

namespace lockstep::app {

int plan_search(const Arguments& arguments);
int plan_read(const Arguments& arguments);
int plan_advise(const Arguments& arguments);
int plan_simulate(const Arguments& arguments);
int plan_check(const Arguments& arguments);
int plan_draw(const Arguments& arguments);
int plan_compare(const Arguments& arguments);
int plan_published(const Arguments& arguments);
int plan_flops(const Arguments& arguments);
int plan_network(const Arguments& arguments);
int plan_memory(const Arguments& arguments);
int plan_waves(const Arguments& arguments);
int plan_law(const Arguments& arguments);

}  // namespace lockstep::app
