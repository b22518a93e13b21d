#include "lab/overlap/overlap.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "arch/parameters.h"
#include "base/error.h"
#include "base/median.h"
#include "base/units.h"
#include "lab/step/step_training.h"

namespace lockstep::lab {
namespace {

constexpr int unmeasured_rounds = 2;

void check_overlap(const StepShape& shape, int ranks) {
  std::vector<Problem> problems = check(shape, data_parallel(ranks), ranks);
  if (ranks == 1) problems.push_back({"one rank exchanges no gradients", "--ranks 2, or start it by mpirun"});
  if (!problems.empty()) throw UserError(std::move(problems));
}

Layout layout_of(const OverlapOptions& options, bool overlap, int ranks) {
  Layout layout = data_parallel(ranks);
  layout.gradients = {.bucket_bytes = options.bucket_bytes, .overlap = overlap};
  return layout;
}

// One kind of step, and what its rounds measured.
class Kind {
 public:
  Kind(const StepShape& shape, const OverlapOptions& options, bool overlap, Runtime& runtime, ops::Ops& ops,
       comm::Communicator& world)
      : world_(world), training_(shape, runtime, ops, world, {.layout = layout_of(options, overlap, world.size())}) {}

  void run(bool count) {
    train::StepResult result;
    std::array<double, 3> mean{};
    mean[2] = training_.timed_step(result);
    mean[0] = result.exposed_seconds;
    mean[1] = result.overlappable_seconds;
    std::array<double, 1> least{result.exposed_seconds};
    world_.host().all_reduce(view(std::span<double>(mean), Shape{3}), comm::Reduction::mean).wait();
    world_.host().all_reduce(view(std::span<double>(least), Shape{1}), comm::Reduction::min).wait();
    if (!count) return;
    exposed_.push_back(mean[0]);
    cover_.push_back(mean[1]);
    step_.push_back(mean[2]);
    least_exposed_.push_back(least[0]);
  }

  double exposed() const { return median_of(exposed_); }
  double least_exposed() const { return median_of(least_exposed_); }
  double cover() const { return median_of(cover_); }
  double step() const { return median_of(step_); }
  /// The median distance from the median of what is compared.
  static double noise_of(const std::vector<double>& values) {
    std::vector<double> distances;
    for (const double value : values) distances.push_back(std::abs(value - median_of(values)));
    return median_of(std::move(distances));
  }
  double exposed_noise() const { return noise_of(exposed_); }
  double least_exposed_noise() const { return noise_of(least_exposed_); }

 private:
  comm::Communicator& world_;
  StepTraining training_;
  std::vector<double> exposed_, least_exposed_, cover_, step_;
};

}  // namespace

OverlapReport bench_overlap(const StepShape& shape, const OverlapOptions& options, Runtime& runtime, ops::Ops& ops,
                            comm::Communicator& world) {
  check_overlap(shape, world.size());
  Kind waiting(shape, options, false, runtime, ops, world), overlapping(shape, options, true, runtime, ops, world);
  for (int round = 0; round < unmeasured_rounds + options.rounds; ++round) {
    waiting.run(round >= unmeasured_rounds);
    overlapping.run(round >= unmeasured_rounds);
  }
  OverlapReport report{.shape = shape, .ranks = world.size(), .bucket_bytes = options.bucket_bytes};
  report.gradient_bytes = 4 * arch::count_parameters(model_of(shape)).total;
  report.communication = waiting.least_exposed();
  report.cover = waiting.cover();
  report.exposed = overlapping.exposed();
  report.step = overlapping.step();
  report.waiting_step = waiting.step();
  report.noise = waiting.least_exposed_noise() + overlapping.exposed_noise();
  return report;
}

Answer answer_of(const OverlapReport& report) {
  Answer answer;
  answer.facts({{"shape", report.shape.name},
                {"ranks", report.ranks},
                {"bucket_bytes", report.bucket_bytes},
                {"gradient_bytes", report.gradient_bytes},
                {"communication_s", report.communication},
                {"backward_s", report.cover},
                {"exposed_s", report.exposed},
                {"hidden_share", report.hidden_share() ? Json(*report.hidden_share()) : Json()},
                {"keeps_up", report.keeps_up()},
                {"saved_s", report.saved()},
                {"noise_s", report.noise},
                {"step_s", report.step},
                {"waiting_step_s", report.waiting_step}});
  answer.say(fmt::format("{}: {} ranks, {} of gradients each, buckets of {}\n", report.shape.name, report.ranks,
                         format_bytes(static_cast<std::uint64_t>(report.gradient_bytes)),
                         format_bytes(static_cast<std::uint64_t>(report.bucket_bytes))));
  Table lines({{""}, {"", "", "{:.1f} ms", 1e3}, {""}});
  lines.row({"communication", report.communication, "when every bucket is waited for at once"});
  lines.row({"backward", report.cover, "after the first unit's gradient was complete"});
  lines.row({"exposed", report.exposed, "communication that is waited for when backward goes on"});
  const std::string most = fmt::format("min(communication, backward) = {:.1f} ms", 1e3 * report.hideable());
  const auto share = report.hidden_share();
  lines.row({"hidden", report.hidden(),
             share ? fmt::format("{:.0f} % of {}", 100 * *share, most) : fmt::format("of {}, which is noise", most)});
  if (std::abs(report.communication - report.exposed) < report.noise)
    lines.row({"noise", report.noise, "more than communication and exposed differ by: --rounds N measures longer"});
  lines.row({"step", report.step, fmt::format("{:.1f} ms without overlap", 1e3 * report.waiting_step)});
  lines.row({"saved", report.saved(), "of a step, by the clock; what is hidden, less what waiting and computing at once cost"});
  answer.table("", lines);
  answer.say(fmt::format(
      "claim: the network keeps up as long as communication takes no longer than the computation beside it\n"
      "here: {:.1f} ms of communication {} {:.1f} ms of backward, so {}\n",
      1e3 * report.communication, report.keeps_up() ? "<=" : ">", 1e3 * report.cover,
      !report.keeps_up() ? fmt::format("at least {:.1f} ms of each step wait for it", 1e3 * (report.communication - report.cover))
      : report.hidden_share() ? fmt::format("all of it could hide, and {:.0f} % do", 100 * *report.hidden_share())
                              : "there is nothing to hide"));
  return answer;
}

}  // namespace lockstep::lab
