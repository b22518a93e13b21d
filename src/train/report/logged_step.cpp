#include "train/report/logged_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "base/error.h"
#include "io/file.h"

namespace lockstep::train {

std::string_view name_of(StepPart part) {
  static constexpr std::array<std::string_view, kStepParts> names{
      "forward", "backward", "waiting for gradients of ranks", "update", "waiting for data", "lost to late ranks", "rest"};
  return names[static_cast<std::size_t>(part)];
}

namespace {

/// A number that is not finite is null in JSON.
double number_of(const Json& line, const char* key) {
  const Json& value = line.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
}

comm::Traffic traffic_of(const Json& json) {
  comm::Traffic traffic;
  for (std::size_t p = 0; p < comm::kPurposes; ++p) {
    const Json* kinds = json.find(comm::name_of(static_cast<comm::Purpose>(p)));
    for (std::size_t k = 0; kinds != nullptr && k < comm::kCollectives; ++k) {
      if (const Json* some = kinds->find(comm::name_of(static_cast<comm::Collective>(k))))
        traffic.all[p][k] = {some->at("sent_bytes").integer(), some->at("waited").number(), some->at("hidden").number()};
    }
  }
  return traffic;
}

/// What is lost to another rank is in rank 0's wait for gradients, and behind that in its passes, which wait for messages and
/// sums. What is lost to rank 0 is in its own passes.
void set_lost(LoggedStep& step, int rank, double seconds) {
  step.late_rank = rank;
  double& lost = step.in(StepPart::lost);
  const auto take = [&](StepPart part, double share) {
    const double taken = std::min(step.in(part), share);
    step.in(part) -= taken;
    lost += taken;
  };
  if (rank != 0) take(StepPart::exposed, seconds);
  const double left = seconds - lost, forward = step.in(StepPart::forward), passes = forward + step.in(StepPart::backward);
  if (passes <= 0) return;
  take(StepPart::forward, left * forward / passes);
  take(StepPart::backward, left * (passes - forward) / passes);
}

}  // namespace

bool is_evaluation(const Json& line) {
  const Json* mark = line.find("eval");
  return mark != nullptr && mark->boolean();
}

Losses logged_losses(const Json& line) {
  return {.step = line.at("step").integer(), .train = number_of(line, "train_loss"), .validation = number_of(line, "val_loss")};
}

LoggedStep logged_step(const Json& line, double microbatches) {
  const auto number = [&](const char* key) { return number_of(line, key); };
  const auto at_least_nothing = [](double seconds) { return std::max(0.0, seconds); };
  LoggedStep step;
  step.step = line.at("step").integer();
  step.loss = number("loss");
  const Json* targets = line.find("targets");  // files of older versions have none
  step.has_loss = step.loss != 0 || (targets != nullptr ? targets->integer() > 0 : number("grad_norm") != 0);
  if (const Json* validation = line.find("val_loss"); validation != nullptr && !validation->is_null())
    step.validation = validation->number();
  step.tokens_per_second = number("tps");
  step.mfu = number("mfu");
  step.seconds = number("dt");
  step.tokens = std::round(step.tokens_per_second * step.seconds);
  const double update = number("update_seconds"), exposed = number("exposed_seconds");
  step.in(StepPart::forward) = microbatches * number("dtf");
  step.in(StepPart::backward) = at_least_nothing(microbatches * number("dtb") - update);
  step.in(StepPart::exposed) = exposed;
  step.in(StepPart::update) = at_least_nothing(update - exposed);
  step.in(StepPart::data) = number("data_wait");
  step.in(StepPart::rest) = at_least_nothing(step.seconds - std::accumulate(step.parts.begin(), step.parts.end(), 0.0));
  if (const Json* late = line.find("late_rank")) set_lost(step, static_cast<int>(late->integer()), number("lost_seconds"));
  if (const Json* ranks = line.find("ranks")) {
    const Json& spread = ranks->at("exposed");
    step.exposed = {spread.at("min").number(), spread.at("max").number()};
    if (const Json* pipeline = ranks->find("pipeline"))
      step.pipeline = {.all = pipeline->at("mean").number(), .waiting = ranks->at("waiting").at("mean").number()};
  }
  if (const Json* waited = line.find("waited")) {
    for (std::size_t kind = 0; kind < step.waited.size(); ++kind) {
      const Json* seconds = waited->find(comm::name_of(static_cast<comm::Collective>(kind)));
      if (seconds != nullptr) step.waited[kind] = seconds->number();
    }
  }
  if (const Json* exchanged = line.find("exchanged")) step.exchanged = traffic_of(*exchanged);
  if (const Json* noise = line.find("noise")) {
    step.noise = {.steps = noise->at("steps").integer(),
                  .square = number_of(*noise, "gradient_square"),
                  .variance = number_of(*noise, "variance")};
  }
  if (line.find("hfu") != nullptr) step.hfu = number("hfu");
  if (line.find("tflops_per_gpu") != nullptr) step.tflops_per_rank = number("tflops_per_gpu");
  return step;
}

LinesRead for_each_logged(const io::Path& metrics, const std::function<void(const Json& line)>& use, LinesRead read) {
  if (!io::exists(metrics)) return read;
  const io::File file = io::File::open_to_read(metrics);
  std::string text(file.size() - std::min(file.size(), read.bytes), '\0');
  file.read_at(read.bytes, std::as_writable_bytes(std::span(text)));
  // A run that is going on may have written half of its last line.
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string place = fmt::format("{}, line {}", metrics.string(), ++read.lines);
    const Json line = Json::parse(text.substr(at, end - at), place);
    try {
      use(line);
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}: {}", place, error.problems().front().message), error.problems().front().remedy);
    }
    read.bytes += end + 1 - at;
  }
  return read;
}

}  // namespace lockstep::train
