// `lockstep plan`: questions about a run that need no run.

#include <array>

#include "app/cli/commands.h"
#include "app/plan/questions.h"

namespace lockstep::app {
namespace {

int plan(const Arguments& arguments) {
  const std::array questions{Command{"search", "the fastest layouts of a model on a machine, and why others lose", plan_search},
                             Command{"read", "a job of Megatron-LM or DeepSpeed: does it fit, what is faster", plan_read},
                             Command{"advise", "which kinds of parallelism a model and a machine call for", plan_advise},
                             Command{"simulate", "a recipe's step on a machine pass by pass, with its memory", plan_simulate},
                             Command{"check", "a run's memory and step predicted, beside what it measured", plan_check},
                             Command{"draw", "a pipeline's schedule: what each rank does when, and who waits", plan_draw},
                             Command{"compare", "all schedules for the same ranks and micro-batches, a line each", plan_compare},
                             Command{"published", "what papers measured on A100s beside what the planner says", plan_published},
                             Command{"flops", "TFLOPS a device of a step that was timed", plan_flops},
                             Command{"network", "whether a network keeps up with devices that share a state", plan_network},
                             Command{"memory", "activations by the rule of thumb, beside those of a run of ours", plan_memory},
                             Command{"waves", "how well a product's tiles fill a device", plan_waves},
                             Command{"law", "bytes of parameters and optimizer with each ZeRO stage", plan_law}};
  return run_one_of(questions,
                    {.name = "plan",
                     .kind = "question",
                     .kinds = "questions",
                     .about = "Answers about a run from its sizes alone: no rank and no device is needed. Nothing is trained, "
                              "except by search --measure. docs/planner.md explains the answers."},
                    arguments);
}

}  // namespace

Command plan_command() { return {"plan", "answers about layouts, memory and time, without a run", plan}; }

}  // namespace lockstep::app
