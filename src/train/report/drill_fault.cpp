#include "train/report/drill_fault.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/json.h"
#include "train/saving/named_state.h"

namespace lockstep::train {
namespace {

/// Stops process `pid` for a part of each period, so that all it does takes `factor` times as long, until it has ended.
void slow_down(pid_t pid, double factor) {
  constexpr double period = 0.1;
  const double runs = period / factor;
  std::string script =
      fmt::format("exec >/dev/null 2>&1; while kill -STOP {0}; do sleep {1:.4f}; kill -CONT {0} || exit; sleep {2:.4f}; done",
                  pid, period - runs, runs);
  std::string shell = "/bin/sh", option = "-c";
  const std::array<char*, 4> words{shell.data(), option.data(), script.data(), nullptr};
  pid_t child = 0;
  if (const int refused = posix_spawn(&child, shell.c_str(), nullptr, nullptr, words.data(), environ); refused != 0)
    throw SystemError(fmt::format("the drill cannot start {}: {}", shell, std::strerror(refused)));
}

template <class Bits>
void alter(std::byte* element, Bits bit, Bits nan, DrillKind kind) {
  Bits bits;
  std::memcpy(&bits, element, sizeof bits);
  bits = kind == DrillKind::flip ? static_cast<Bits>(bits ^ bit) : nan;
  std::memcpy(element, &bits, sizeof bits);
}

/// The first bit of the mantissa: the value changes by at most half of itself, and stays finite.
void alter(const Tensor& values, DrillKind kind) {
  if (values.dtype == DType::f32) return alter<std::uint32_t>(values.data, 1U << 22U, 0x7fc00000U, kind);
  ensure(values.dtype == DType::bf16, "weights are of fp32 or bf16");
  alter<std::uint16_t>(values.data, 1U << 6U, 0x7fc0U, kind);
}

}  // namespace

std::string drill_text(const DrillFault& fault, const io::Path& played) {
  const Json text = Json::Object{{"kind", std::string(fault.name())},
                                 {"first", static_cast<std::int64_t>(fault.first)},
                                 {"last", static_cast<std::int64_t>(fault.last)},
                                 {"step", fault.step},
                                 {"subject", fault.subject},
                                 {"factor", fault.factor},
                                 {"played", played.string()}};
  return text.dump();
}

DrillPlayer::DrillPlayer(const std::string& text, Engine& engine, Log& log)
    : rank_(engine.groups().all().rank()), engine_(engine), log_(log) {
  try {
    const Json order = Json::parse(text);
    const auto kind = std::ranges::find(drill_kinds, order.at("kind").string());
    if (kind == drill_kinds.end()) throw UserError("", "");
    fault_ = {.kind = static_cast<DrillKind>(kind - drill_kinds.begin()),
              .first = static_cast<int>(order.at("first").integer()),
              .last = static_cast<int>(order.at("last").integer()),
              .step = order.at("step").integer(),
              .subject = order.at("subject").string(),
              .factor = order.at("factor").number()};
    mark_ = io::Path(order.at("played").string()) / std::to_string(rank_);
  } catch (const std::exception&) {
    throw UserError(fmt::format("{} = {}: lockstep drill did not write it", DrillFault::variable, text),
                    fmt::format("unset {}", DrillFault::variable));
  }
}

void DrillPlayer::started(const RunState& /*state*/) {
  log_.info(fmt::format("A drill is on ({}): {} as step {} begins. This run is a trial", DrillFault::variable, fault_.name(),
                        fault_.step));
}

void DrillPlayer::step_begins(std::int64_t step) {
  const bool mine = rank_ >= fault_.first && rank_ <= fault_.last;
  if (mine && step + 1 == fault_.step && !io::exists(mark_)) play();
}

void DrillPlayer::play() {
  if (fault_.changes_weights()) {
    if (change_weight()) mark();
    return;
  }
  mark();
  if (fault_.kind == DrillKind::kill) std::raise(SIGKILL);
  if (fault_.kind == DrillKind::stop || fault_.kind == DrillKind::cut) std::raise(SIGSTOP);
  if (fault_.kind == DrillKind::slow) slow_down(getpid(), fault_.factor);
  if (fault_.kind == DrillKind::full_disk) {
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
}

bool DrillPlayer::change_weight() {
  bool found = false;
  parallel::TrainingState& state = engine_.state();
  const auto change = [&](const std::vector<checkpoint::HeldTensor>& held) {
    for (const checkpoint::HeldTensor& one : held) {
      for (const checkpoint::HeldRange& range : one.ranges) {
        if (one.tensor.name != fault_.subject || !range.counts || range.first != 0) continue;
        alter(range.values, fault_.kind);
        found = true;
      }
    }
  };
  state.for_each({.changes = true}, [&](const parallel::StateRange& range) {
    hold(engine_.pieces(), part_of(state, range, range.master, range.own), true, change);
  });
  return found;
}

void DrillPlayer::mark() const { io::replace_file(mark_, ""); }

void add_drill(RunListeners& outputs, Engine& engine, Log& log) {
  if (const char* text = std::getenv(DrillFault::variable)) outputs.push_back(std::make_unique<DrillPlayer>(text, engine, log));
}

}  // namespace lockstep::train
