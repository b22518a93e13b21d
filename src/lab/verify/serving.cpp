#include "lab/verify/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "checkpoint/weight_source.h"
#include "device/runtime.h"
#include "tensor/bfloat16.h"
#include "train/inference.h"

namespace lockstep::lab {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Weights that are a function of their names.
class RandomWeights final : public checkpoint::WeightSource, public checkpoint::RangeReader {
 public:
  std::unique_ptr<RangeReader> read_model(std::span<const checkpoint::LogicalTensor>) const override {
    return std::make_unique<RandomWeights>();
  }
  void fill(std::span<const checkpoint::HeldTensor> tensors, Team& team) override {
    team.for_each(std::ssize(tensors), [&](std::int64_t i, int) {
      const checkpoint::HeldTensor& held = tensors[static_cast<std::size_t>(i)];
      const CounterRng rng(1337, held.tensor.name);
      for (const checkpoint::HeldRange& range : held.ranges) {
        for (std::int64_t at = 0; at < range.values.elements(); ++at) {
          const auto x = static_cast<float>(rng.uniform(static_cast<std::uint64_t>(range.first + at)) - 0.5);
          if (range.values.dtype == DType::f32) {
            reinterpret_cast<float*>(range.values.data)[at] = x;
          } else {
            reinterpret_cast<BFloat16*>(range.values.data)[at] = to_bfloat16(x);
          }
        }
      }
    });
  }
  void finish(comm::Communicator&) override {}
};

/// A model to write with.
struct Writer {
  Writer(const VerifyModel& model, const ServingCase& of)
      : runtime(open_runtime({}, {.threads = of.threads})),
        stream(runtime->make_stream()),
        ops(ops::make_ops(*runtime, *stream, {.cpu = {.isa = of.isa}})),
        world(comm::make_self()) {
    world->attach(*stream, runtime->team());
    groups = std::make_unique<parallel::Groups>(*world, layout::Mesh(layout::ParallelPlan{}));
    inference = std::make_unique<train::Inference>(model.config, model.weights.type, *runtime, *ops, *groups);
    inference->load(RandomWeights(), runtime->team());
    if (of.packed) inference->prepack();
  }
  void commit(auto& writes) {
    writes.declare(workspace, cache);
    Ledger ledger;
    workspace.commit(*runtime, ledger);
    cache.commit(*runtime, ledger);
  }
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
  std::unique_ptr<comm::Communicator> world;
  std::unique_ptr<parallel::Groups> groups;
  std::unique_ptr<train::Inference> inference;
  Arena workspace{"serving", MemoryKind::workspace}, cache{"serving_cache", MemoryKind::workspace};
};

/// Texts of many lengths. Every third begins as the others of these do, for more than a page.
std::vector<train::WantedText> wanted_texts(std::int64_t vocabulary) {
  std::vector<train::WantedText> texts;
  const auto append = [&](Tokens& to, std::string_view name, std::int64_t count) {
    const CounterRng rng(7, name);
    for (std::int64_t i = 0; i < count; ++i)
      to.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocabulary), static_cast<std::uint64_t>(i))));
  };
  for (std::int64_t n = 0; n < 12; ++n) {
    train::WantedText text{
        .prompt = {},
        .sampling = {.tokens = 3 + 11 * n, .temperature = n == 4 ? 0 : 0.9, .top_k = n % 2 == 0 ? 0 : 16, .number = n}};
    if (n % 3 == 0) append(text.prompt, "common", 150);
    append(text.prompt, fmt::format("own.{}", n), 1 + 7 * n);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<Tokens> each_alone(Writer& writer, const std::vector<train::WantedText>& wanted) {
  train::TextSampler sampler(writer.inference->share());
  writer.commit(sampler);
  std::vector<Tokens> written(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    sampler.run(wanted[i].prompt, wanted[i].sampling, [&](std::int32_t token) {
      written[i].push_back(token);
      return true;
    });
  }
  return written;
}

std::vector<Tokens> side_by_side(Writer& writer, const std::vector<train::WantedText>& wanted, const train::BatchSize& size,
                                 std::int64_t& saved) {
  train::TextBatch batch(writer.inference->share(), size, writer.runtime->team());
  writer.commit(batch);
  std::vector<Tokens> written(wanted.size());
  std::map<std::int64_t, std::size_t> at;
  for (std::size_t next = 0; next < wanted.size() || batch.active() > 0;) {
    for (; next < wanted.size(); ++next) {
      const auto place = batch.begin(wanted[next]);
      if (!place) break;
      at[*place] = next;
    }
    batch.step([&](const train::WrittenToken& token) { written[at.at(token.place)].push_back(token.token.token); });
  }
  saved = batch.tokens_saved();
  return written;
}

}  // namespace

std::vector<ServingCase> serving_cases() {
  std::vector<ServingCase> cases = {
      {"one at a time", {.texts = 1, .pages = 5, .rows = 33}},
      {"3 side by side, prompts in pieces of 7", {.texts = 3, .pages = 12, .rows = 7}},
      {"3 side by side, prompts alone in pieces of 50", {.texts = 3, .pages = 12, .rows = 7, .rows_of_prompts = 50}},
      {"8 side by side", {.texts = 8, .pages = 60, .rows = 300}},
      {"8 side by side, 2 threads, weights packed", {.texts = 8, .pages = 30, .rows = 64}, 2, ops::Isa::automatic, true}};
  const std::vector<ops::Isa> isas = ops::available_isas();
  for (const ops::Isa isa : isas) {
    // Kernels without fused multiply-adds have bits of their own.
    if (isa == ops::Isa::baseline || isa == isas.front()) continue;
    cases.push_back({fmt::format("8 side by side, {}", ops::name_of(isa)), {.texts = 8, .pages = 60, .rows = 128}, 1, isa});
  }
  return cases;
}

void compare(ServingReport& report, const std::vector<Tokens>& written, const std::vector<Tokens>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ++report.texts;
    report.tokens += std::ssize(written[i]);
    if (written[i] == expected[i] || report.different++ > 0) continue;
    report.first =
        fmt::format("text {} from its token {} on", i, std::ranges::mismatch(written[i], expected[i]).in1 - written[i].begin());
  }
}

std::vector<ServingReport> verify_serving(const std::vector<VerifyModel>& models, const std::vector<ServingCase>& cases,
                                          const std::function<void(const ServingReport&)>& told) {
  std::vector<ServingReport> reports;
  for (VerifyModel model : models) {
    model.config.block_size = 320;
    const std::vector<train::WantedText> wanted = wanted_texts(model.config.vocabulary);
    Writer alone(model, {});
    const std::vector<Tokens> expected = each_alone(alone, wanted);
    for (const ServingCase& one : cases) {
      Writer writer(model, one);
      ServingReport report{.model = model.name, .words = one.words, .first = {}};
      const std::vector<Tokens> written = side_by_side(writer, wanted, one.size, report.saved);
      compare(report, written, expected);
      told(report);
      reports.push_back(std::move(report));
    }
  }
  return reports;
}

}  // namespace lockstep::lab
