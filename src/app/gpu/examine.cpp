#include "app/gpu/examine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>

#include "app/gpu/certificate.h"
#include "base/text/lower.h"
#include "device/cuda/cuda_runtime.h"
#include "lab/kernels/kernel_rates.h"
#include "ops/open_ops.h"
#include "planner/machine.h"

namespace lockstep::app {
namespace {

/// Kernels of a GPU or of the processor, with what they need.
struct Opened {
  Opened(const Device& device, ops::Bf16Order bf16)
      : runtime(open_runtime(device)),
        stream(runtime->make_stream()),
        ops(ops::make_ops(*runtime, *stream, {.cpu = {.bf16 = bf16}})) {}
  lab::KernelMachine machine() const { return {*runtime, *ops}; }
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
};

/// The preset whose name's words are all in the GPU's: the longest. "NVIDIA A100-SXM4-40GB": a100-40gb.
const planner::Machine* preset_of(const std::string& gpu) {
  const std::string name = lower(gpu);
  const planner::Machine* found = nullptr;
  for (const planner::Machine& machine : planner::machine_presets()) {
    bool all = true;
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = machine.name.find('-', begin);
      all = all && name.find(machine.name.substr(begin, end - begin)) != std::string::npos;
    }
    if (all && (found == nullptr || machine.name.size() > found->name.size())) found = &machine;
  }
  return found;
}

std::string outcome(const lab::KernelTrial& trial) {
  if (!trial.error.empty()) return trial.error;
  if (trial.different == 0) return "equal bits";
  return fmt::format("{} of {} differ, by {:.1e} of the largest{}", trial.different, trial.values, trial.distance,
                     trial.right()       ? ""
                     : trial.allowed > 0 ? fmt::format(": more than {}", trial.allowed)
                                         : ": bits are to be equal");
}

Table table_of_trials(const std::vector<lab::KernelTrial>& trials) {
  Table table({{"family", "family"},
               {"kernel", "kernel"},
               {"dtype", "type"},
               {"products", "bf16 products"},
               {"right", ""},
               {"outcome", "outcome"}});
  for (const lab::KernelTrial& trial : trials) {
    table.row({trial.family, trial.what, std::string(name_of(trial.type)), trial.allowed > 0 ? "tensor cores" : "widened",
               trial.right() ? "ok" : "WRONG", outcome(trial)});
  }
  return table;
}

/// Shares of the datasheet are of bf16 products on tensor cores and of memory, whose rates the planner knows.
Table table_of_rates(const std::vector<lab::KernelRate>& rates, const planner::Machine* preset) {
  Table table({{"kernel", "kernel"}, {"dtype", "type"}, {"rate", "rate", "{:.2f}"}, {"unit", ""}, {"share", "of the datasheet"}});
  for (const lab::KernelRate& rate : rates) {
    const bool known = preset != nullptr && (!rate.products || rate.type == DType::bf16);
    const double most = !known ? 0 : rate.products ? preset->peak_flops : preset->memory_rate;
    table.row({rate.what, std::string(name_of(rate.type)), rate.rate * (rate.products ? 1e-12 : 1e-9),
               rate.products ? "TFLOP/s" : "GB/s", known ? Cell(fmt::format("{:.0f} %", 100 * rate.rate / most)) : Cell(Json())});
  }
  return table;
}

/// Opened, or why not in the words of this command.
Opened open_gpu() {
  try {
    return {{DeviceKind::cuda, 0}, ops::Bf16Order::automatic};
  } catch (const UserError& error) {
    std::vector<Problem> problems = error.problems();
    constexpr std::string_view setting = "train.device=cuda";
    for (Problem& problem : problems) {
      if (problem.message.starts_with(setting)) problem.message.replace(0, setting.size(), "--device cuda");
    }
    throw UserError(std::move(problems));
  }
}

std::vector<lab::KernelTrial> all_trials() {
  std::vector<lab::KernelTrial> trials;
  const auto nobody = [](const lab::KernelTrial&) {};
  const Opened processor({}, ops::Bf16Order::widened);
  for (const lab::Bf16Trials bf16 : {lab::Bf16Trials::widened, lab::Bf16Trials::own_order}) {
    const bool widened = bf16 == lab::Bf16Trials::widened;
    const Opened gpu({DeviceKind::cuda, 0}, widened ? ops::Bf16Order::widened : ops::Bf16Order::automatic);
    std::ranges::move(lab::try_kernels(processor.machine(), gpu.machine(), bf16, nobody), std::back_inserter(trials));
  }
  return trials;
}

}  // namespace

int examine_gpu(AnswerLine& line) {
  const Opened gpu = open_gpu();
  GpuCertificate certificate{.of = kernels_of_gpu(0),
                             .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::chrono::system_clock::now())),
                             .trials = 0,
                             .wrong = {}};
  Answer answer;
  answer.say(fmt::format("GPU      {}, driver for CUDA {}\nkernels  {}\n\n", gpu.runtime->description(), certificate.of.driver,
                         certificate.of.hash));
  const std::vector<lab::KernelTrial> trials = all_trials();
  certificate.trials = std::ssize(trials);
  for (const lab::KernelTrial& trial : trials) {
    if (!trial.right()) certificate.wrong.push_back(fmt::format("{}, {} ({})", trial.family, trial.what, name_of(trial.type)));
  }
  answer.table("trials", table_of_trials(trials));
  answer.say("\n");
  answer.table("rates", table_of_rates(lab::measure_kernels(gpu.machine()), preset_of(certificate.of.gpu)));
  write_certificate(certificate);
  const bool right = certificate.wrong.empty();
  answer.say(fmt::format("\n{}\ncertificate  {}\n",
                         right ? fmt::format("FIT: in all {} trials the GPU made what the processor makes", trials.size())
                               : fmt::format("UNFIT: {} of {} trials are wrong, so training on this GPU is refused",
                                             certificate.wrong.size(), trials.size()),
                         std::string(certificate_file(certificate.of))));
  answer.facts(
      {{"gpu", certificate.of.gpu}, {"driver", certificate.of.driver}, {"kernels", certificate.of.hash}, {"fit", right}});
  line.print(answer);
  return right ? 0 : 1;
}

}  // namespace lockstep::app
