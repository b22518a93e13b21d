#include "lab/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/timer.h"

namespace lockstep::lab {
namespace {

const TrialParts usual_parts;

std::string name_of(const Finding& finding, const RunRecord& record) {
  const auto of = [&](std::string_view what) {
    return fmt::format("{} {}", what, record.whole.parameters[static_cast<std::size_t>(finding.parameter)].name);
  };
  switch (finding.quantity) {
    case Quantity::drawn:
      return of("start of");
    case Quantity::read:
      return of("reading");
    case Quantity::gradient:
      return of("gradient of");
    case Quantity::loss:
      return "loss";
    case Quantity::norm:
      return "gradient norm";
    case Quantity::weight:
      return of("weight");
    case Quantity::slot:
      return of(record.slots[static_cast<std::size_t>(finding.slot)] + " of");
    case Quantity::evaluation:
      return "evaluation's loss";
  }
  return {};
}

/// "step 1, layer h.3, rank 2: gradient of transformer.h.3.ln_1.weight differs by 3.1e-02 (element 5: 0.2 instead of 0.1)".
std::string sentence(const Finding& finding, const RunRecord& record) {
  const bool tensor = finding.parameter >= 0;
  const std::string layer =
      tensor ? fmt::format(", layer {}", record.whole.parameters[static_cast<std::size_t>(finding.parameter)].unit) : "";
  return fmt::format("step {}{}, rank {}: {} differs by {:.1e} ({}{:.9g} instead of {:.9g})", finding.step, layer, finding.rank,
                     name_of(finding, record), finding.error, tensor ? fmt::format("element {}: ", finding.element) : "",
                     finding.value, finding.expected);
}

RunFailure attempt(const Trial& trial, const MakeObserver& make_observer) {
  try {
    run(trial, make_observer);
    return {};
  } catch (const std::exception& error) {
    return {std::current_exception(), error.what()};
  }
}

/// A run that others are compared with; `like` as make_recorder() has it.
struct Recorded {
  Recorded(const VerifyModel& model, const Layout& layout, int steps, DeviceKind device, const RunRecord* like)
      : run(model, layout, steps),
        failure(attempt({model, layout, steps, usual_parts, device}, [&](int rank) { return make_recorder(run, like, rank); })) {}
  RunRecord run;
  RunFailure failure;
};

/// What a layout is compared with.
struct Reference {
  const Recorded& recorded;
  const Layout& layout;
  Going going;
};

class ModelProof {
 public:
  ModelProof(const VerifyModel& model, const VerifyOptions& options, const std::function<void(const LayoutReport&)>& told,
             const TrialParts& parts)
      : model_(model), options_(options), told_(told), parts_(parts) {}

  std::vector<LayoutReport> reports() {
    std::vector<Layout> done;
    for (const Layout& layout : options_.layouts) {
      const Layout base = plain(layout);
      if (std::ranges::find(done, name_of(base), [](const Layout& each) { return name_of(each); }) != done.end()) continue;
      done.push_back(base);
      prove_alike(base);
    }
    return std::move(reports_);
  }

 private:
  /// Every device has the processor's bits in fp32; in bf16 it has its own order of additions.
  DeviceKind recorded_on() const { return model_.weights.type == DType::f32 ? DeviceKind::cpu : options_.device; }
  /// Runs all layouts with the same sums as `base`.
  void prove_alike(const Layout& base) {
    std::vector<const Layout*> others;
    bool wanted = false;
    for (const Layout& layout : options_.layouts) {
      if (name_of(plain(layout)) != name_of(base)) continue;
      name_of(layout) == name_of(base) ? void(wanted = true) : others.push_back(&layout);
    }
    const Layout one = one_rank(base);
    const bool is_one = name_of(base) == name_of(one);
    const bool same_bits = is_one || base.plan.canonical;
    const Going going = same_bits ? Going::free : Going::led;
    const Recorded& alone = record_of_one(one);
    if (wanted || !is_one || recorded_on() != options_.device) prove(base, {alone, one, going}, wanted);
    if (others.empty()) return;
    std::optional<Recorded> of_base;
    if (!same_bits) of_base.emplace(model_, base, options_.steps, recorded_on(), alone.failure.thrown ? nullptr : &alone.run);
    for (const Layout* layout : others)
      same_bits ? prove(*layout, {alone, one, Going::free}, true) : prove(*layout, {*of_base, base, Going::free}, true);
  }

  const Recorded& record_of_one(const Layout& one) {
    std::unique_ptr<Recorded>& record = alone_[name_of(one)];
    if (!record) record = std::make_unique<Recorded>(model_, one, options_.steps, recorded_on(), nullptr);
    return *record;
  }

  void prove(const Layout& layout, const Reference& reference, bool wanted) {
    LayoutReport report{.model = model_.name,
                        .layout = name_of(layout),
                        .against = name_of(reference.layout),
                        .promises_bits = reference.going == Going::free,
                        .wanted = wanted,
                        .ranks = layout.ranks(),
                        .steps = options_.steps};
    if (!report.promises_bits)
      report.tolerance = model_.weights.type == DType::f32 ? model_.fp32_tolerance : model_.bf16_tolerance;
    Comparison comparison(reference.recorded.run, reference.going, layout.plan.ranks());
    const double begun = now_seconds();
    report.failure = reference.recorded.failure;
    if (report.failure.thrown) {
      report.failure.reason = fmt::format("of {}, which it is compared with: {}", report.against, report.failure.reason);
    } else {
      report.failure =
          attempt({model_, layout, options_.steps, parts_, options_.device}, [&](int rank) { return comparison.observer(rank); });
    }
    report.seconds = now_seconds() - begun;
    judge(comparison, reference.recorded.run, report);
    told_(report);
    reports_.push_back(std::move(report));
  }

  static bool keeps_promise(const Finding& finding, const LayoutReport& report) {
    const bool sums = finding.quantity == Quantity::gradient || finding.quantity == Quantity::loss ||
                      finding.quantity == Quantity::norm || finding.quantity == Quantity::evaluation;
    return !report.promises_bits && sums && finding.error <= report.tolerance;
  }

  static void judge(const Comparison& comparison, const RunRecord& record, LayoutReport& report) {
    const std::vector<Finding> findings = comparison.findings();
    std::size_t more = 0;
    for (const Finding& finding : findings) {
      if (finding.error >= report.error) {
        report.error = finding.error;
        report.worst = name_of(finding, record);
      }
      if (keeps_promise(finding, report)) continue;
      report.wrong.empty() ? report.wrong.push_back(sentence(finding, record)) : void(++more);
    }
    if (more > 0) {
      report.wrong.push_back(fmt::format("{} more tensors and numbers of its steps differ, most of all {} by {:.1e}", more,
                                         report.worst, report.error));
    }
    if (!report.failure.thrown) {
      const std::vector<std::string> miscounted = comparison.miscounted();
      report.wrong.insert(report.wrong.end(), miscounted.begin(), miscounted.end());
    }
    report.verdict = !report.wrong.empty()   ? Verdict::wrong
                     : report.failure.thrown ? Verdict::error
                     : findings.empty()      ? Verdict::bit_equal
                                             : Verdict::within_tolerance;
  }

  const VerifyModel& model_;
  const VerifyOptions& options_;
  const std::function<void(const LayoutReport&)>& told_;
  const TrialParts& parts_;
  std::map<std::string, std::unique_ptr<Recorded>> alone_;
  std::vector<LayoutReport> reports_;
};

std::vector<Problem> problems_of(const Layout& layout, const VerifyModel& model, DeviceKind device) {
  std::vector<Problem> problems = check(layout, model.limits(), layout.plan.ranks());
  if (layout.servers > 0 && train::make_optimizer(model.optimizer)->whole_tensors() != train::WholeTensorNeed::none) {
    problems.push_back({fmt::format("layout {}: {} needs whole tensors, and parameter servers hold parts of them",
                                    name_of(layout), model.optimizer.name),
                        "leave ps out, or choose --optimizer AdamW or sgd"});
  }
  if (layout.servers > 0 && device != DeviceKind::cpu)
    problems.push_back(
        {fmt::format("layout {}: parameter servers add in the host's memory, and --device cuda has none there", name_of(layout)),
         "leave ps out, or --device cpu"});
  return problems;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  constexpr std::array<std::string_view, 4> names{"bit-equal", "within tolerance", "WRONG", "error"};
  return names.at(static_cast<std::size_t>(verdict));
}

std::vector<Problem> check(const VerifyOptions& options) {
  std::vector<Problem> problems;
  constexpr int most_steps = 1000;
  if (options.steps < 1 || options.steps > most_steps) {
    problems.push_back({fmt::format("--steps {}: must be from 1 to {}", options.steps, most_steps), "--steps 3"});
  }
  if (options.layouts.empty()) problems.push_back({"--layouts: there is none", "--layouts quick, or dp=2;dp=2,zero=3"});
  for (const Layout& layout : options.layouts) {
    const int ranks = layout.ranks();
    if (ranks > most_verify_ranks) {
      problems.push_back(
          {fmt::format("layout {}: {} ranks: verify starts at most {}, as threads", name_of(layout), ranks, most_verify_ranks),
           "smaller degrees prove as much"});
    }
    for (const VerifyModel& model : options.models) {
      if (options.as_possible) break;
      for (Problem& problem : problems_of(layout, model, options.device)) {
        const auto same = [&](const Problem& other) { return other.message == problem.message; };
        if (std::ranges::none_of(problems, same)) problems.push_back(std::move(problem));
      }
    }
  }
  return problems;
}

std::vector<LayoutReport> verify(const VerifyOptions& options, const std::function<void(const LayoutReport&)>& told,
                                 const TrialParts& parts) {
  std::vector<LayoutReport> all;
  for (const VerifyModel& model : options.models) {
    VerifyOptions possible = options;
    std::erase_if(possible.layouts, [&](const Layout& layout) {
      return options.as_possible && !problems_of(layout, model, options.device).empty();
    });
    std::vector<LayoutReport> reports = ModelProof(model, possible, told, parts).reports();
    std::ranges::move(reports, std::back_inserter(all));
  }
  return all;
}

}  // namespace lockstep::lab
