#include "app/gpu/examine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "app/gpu/certificate.h"
#include "app/gpu/device_option.h"
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

std::vector<lab::KernelTrial> all_trials() {
  std::vector<lab::KernelTrial> trials;
  const Opened processor({}, ops::Bf16Order::widened);
  for (const lab::Bf16Trials bf16 : {lab::Bf16Trials::widened, lab::Bf16Trials::own_order}) {
    const bool widened = bf16 == lab::Bf16Trials::widened;
    const Opened gpu({DeviceKind::cuda, 0}, widened ? ops::Bf16Order::widened : ops::Bf16Order::automatic);
    std::ranges::move(lab::try_kernels(processor.machine(), gpu.machine(), bf16), std::back_inserter(trials));
  }
  return trials;
}

}  // namespace

int examine_gpu(AnswerLine& line) {
  std::optional<Opened> opened;
  tell_of_device_option([&] { opened.emplace(Device{DeviceKind::cuda, 0}, ops::Bf16Order::automatic); });
  const Opened& gpu = *opened;
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
  answer.table("rates", table_of_rates(lab::measure_kernels(gpu.machine()), planner::machine_with(certificate.of.gpu)));
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
