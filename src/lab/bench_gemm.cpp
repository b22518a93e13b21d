#include "lab/bench_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "base/checked.h"
#include "base/timer.h"
#include "lab/machine.h"
#include "ops/open_ops.h"
#include "tensor/bfloat16.h"

namespace lockstep::lab {
namespace {

// The threads of each library keep spinning for a while after a call (OpenBLAS longest), and so do ours: they must sleep before
// another's turn.
constexpr auto rivals_quiet_time = std::chrono::milliseconds(100);
constexpr auto our_quiet_time = std::chrono::milliseconds(5);
// The multiply-add rate is taken for so long before and after the calls; where the two differ by more than this, once more.
constexpr double rate_seconds = 0.003;
constexpr double steady = 0.05;
constexpr int most_tries = 4;

float* floats(const Memory& memory) { return reinterpret_cast<float*>(memory.data()); }

Tensor matrix(const Memory& memory, std::int64_t rows, std::int64_t columns, DType type) {
  Tensor tensor;
  tensor.data = memory.data();
  tensor.shape = {rows, columns};
  tensor.dtype = type;
  return tensor;
}

// Seconds a call: enough calls for the clock, after one to warm up.
double time_calls(const std::function<void()>& call, double seconds) {
  call();
  const double start = now_seconds();
  std::int64_t calls = 0;
  double elapsed = 0;
  do {
    call();
    ++calls;
    elapsed = now_seconds() - start;
  } while (elapsed < seconds);
  return elapsed / static_cast<double>(calls);
}

double middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Memory of `bytes` with small numbers in it, so that no product overflows. Both halves of a word are the same bf16. The whole
// word as f32 is nearly the same number.
void fill(Memory& memory, MemorySource& source, std::size_t bytes) {
  if (memory.size() >= bytes) return;
  memory = Memory();
  memory = source.allocate(bytes);
  auto* halves = reinterpret_cast<BFloat16*>(memory.data());
  for (std::size_t i = 0; i < bytes / 4; ++i)
    halves[2 * i] = halves[2 * i + 1] = to_bfloat16(static_cast<float>(i % 61) * 0.001F - 0.03F);
}

}  // namespace

GemmBench::GemmBench(Runtime& runtime, const GemmBenchOptions& options)
    : runtime_(runtime),
      options_(options),
      stream_(runtime.make_stream()),
      ops_(ops::make_ops(runtime, *stream_, {.cpu = {.isa = options.isa, .plain = options.plain}})),
      product_(runtime.team(), options.isa, runtime.memory()) {
  ensure(options.rounds >= 1, "there is at least one round");
  const ops::Bf16Order other = other_than(ops::usual_bf16_order());
  if (options.type == DType::bf16 && ops::has_instruction_of(other))
    other_ops_ = ops::make_ops(runtime, *stream_, {.cpu = {.bf16 = other}});
  if (!options.rivals) return;
  onednn_ = open_onednn(product_.team().size());
  openblas_ = open_openblas(product_.team().size());
}

void GemmBench::reserve(std::size_t a, std::size_t b, std::size_t c) {
  fill(a_, runtime_.memory(), 4 * a);
  fill(b_, runtime_.memory(), 4 * b);
  fill(c_, runtime_.memory(), 4 * c);
}

void GemmBench::sample(const Contender& contender, std::vector<double>& seconds, std::vector<double>& room) const {
  for (int attempt = 1;; ++attempt) {
    const double before = fma_rate(product_.team(), rate_seconds);
    if (contender.rival) std::this_thread::sleep_for(our_quiet_time);
    const double each = time_calls(contender.call, options_.sample_seconds);
    if (contender.rival) std::this_thread::sleep_for(rivals_quiet_time);
    const double after = fma_rate(product_.team(), rate_seconds);
    if (attempt < most_tries && std::min(before, after) < (1 - steady) * std::max(before, after)) continue;
    seconds.push_back(each);
    room.push_back(each * (before + after) / 2);
    return;
  }
}

std::vector<Timing> GemmBench::race(const std::vector<Contender>& contenders) const {
  std::vector<std::vector<double>> seconds(contenders.size()), room(contenders.size());
  for (int round = 0; round < options_.rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i)
      if (contenders[i].call) sample(contenders[i], seconds[i], room[i]);
  std::vector<Timing> timings(contenders.size());
  for (std::size_t i = 0; i < contenders.size(); ++i)
    if (contenders[i].call) timings[i] = {middle_of(seconds[i]), *std::ranges::min_element(seconds[i]), middle_of(room[i])};
  return timings;
}

GemmBench::Call GemmBench::our_call(ops::Ops& ops, const LayerShape& shape, ProductKind kind, DType type) {
  const std::int64_t t = shape.tokens, n = shape.out, k = shape.in;
  ops::Linear& linear = ops.linear();
  if (kind == ProductKind::forward) {
    const Tensor x = matrix(a_, t, k, type), w = matrix(b_, n, k, type), y = matrix(c_, t, n, type);
    return [&linear, x, w, y] { linear.forward(y, x, w); };
  }
  if (kind == ProductKind::backward_input) {
    const Tensor dy = matrix(a_, t, n, type), w = matrix(b_, n, k, type), dx = matrix(c_, t, k, type);
    return [&linear, dy, w, dx] { linear.backward_input(dx, dy, w); };
  }
  const Tensor dy = matrix(a_, t, n, type), x = matrix(b_, t, k, type), dw = matrix(c_, n, k, DType::f32);
  return [&linear, dy, x, dw] { linear.backward_weight(dw, {}, dy, x, true); };
}

GemmRow GemmBench::measure(std::string model, const LayerShape& shape, ProductKind kind) {
  const std::int64_t t = shape.tokens, n = shape.out, k = shape.in;
  ProductShape product{t, n, k, false, true, false, options_.type};
  if (kind == ProductKind::backward_input) product = {t, k, n, false, false, false, options_.type};
  if (kind == ProductKind::backward_weight) product = {n, k, t, true, false, true, options_.type};
  reserve(static_cast<std::size_t>(product.m * product.k), static_cast<std::size_t>(product.k * product.n),
          static_cast<std::size_t>(product.m * product.n));
  std::vector<Contender> contenders{{our_call(*ops_, shape, kind, options_.type)}, {{}, true}, {{}, true}, {}, {}};
  if (onednn_) contenders[1].call = onednn_->prepare(product, a_.data(), b_.data(), c_.data());
  if (openblas_) contenders[2].call = openblas_->prepare(product, a_.data(), b_.data(), c_.data());
  if (options_.type != DType::f32) contenders[3].call = our_call(*ops_, shape, kind, DType::f32);
  if (other_ops_) contenders[4].call = our_call(*other_ops_, shape, kind, options_.type);
  const std::vector<Timing> timings = race(contenders);
  return {std::move(model), shape, kind, timings[0], timings[1], timings[2], timings[3], timings[4]};
}

Timing GemmBench::measure_heads(std::int64_t count, std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed) {
  reserve(static_cast<std::size_t>(count * m * k), static_cast<std::size_t>(count * k * n),
          static_cast<std::size_t>(count * m * n));
  const Call call = [&] {
    product_.team().for_each(count, [&](std::int64_t head, int worker) {
      product_.run_alone({.m = m,
                          .n = n,
                          .k = k,
                          .a = floats(a_) + head * m * k,
                          .a_stride = k,
                          .a_transposed = false,
                          .b = floats(b_) + head * k * n,
                          .b_stride = b_transposed ? k : n,
                          .b_transposed = b_transposed,
                          .c = floats(c_) + head * m * n,
                          .c_stride = n},
                         worker);
    });
  };
  return race({{call}}).front();
}

Timing GemmBench::measure_together(const std::vector<LayerShape>& layers) {
  std::size_t most = 0;  // elements of x, w or y
  for (const LayerShape& layer : layers)
    most = std::max(
        most, static_cast<std::size_t>(std::max({layer.tokens * layer.in, layer.tokens * layer.out, layer.out * layer.in})));
  reserve(most, most, most);
  std::vector<Call> calls;
  for (const LayerShape& layer : layers) {
    for (const ProductKind kind : {ProductKind::forward, ProductKind::backward_input, ProductKind::backward_weight}) {
      if (kind == ProductKind::forward ? layer.forward : layer.backward)
        calls.insert(calls.end(), static_cast<std::size_t>(layer.calls), our_call(*ops_, layer, kind, options_.type));
    }
  }
  const Call all = [&] {
    for (const Call& call : calls) call();
  };
  return race({{all}}).front();
}

std::vector<std::string> GemmBench::notes() const {
  std::vector<std::string> notes;
  for (const auto* rival : {onednn_.get(), openblas_.get()})
    if (rival != nullptr && !rival->note().empty()) notes.push_back(rival->note());
  return notes;
}

std::vector<std::string> GemmBench::contenders() const {
  std::vector<std::string> names{"lockstep"};
  if (onednn_) names.push_back(onednn_->name());
  if (openblas_) names.push_back(openblas_->name());
  return names;
}

ops::Bf16Order other_than(ops::Bf16Order taken) {
  if (taken != ops::Bf16Order::widened) return ops::Bf16Order::widened;
  return ops::has_instruction_of(ops::Bf16Order::amx) ? ops::Bf16Order::amx : ops::Bf16Order::pairs;
}

std::string order_note(ops::Bf16Order taken, double gain) {
  constexpr double clear = 1.1;
  if (gain < clear) return {};
  const std::string_view other = name_of(other_than(taken));
  return fmt::format(
      "numerics.bf16=auto takes {} on this processor, but {} is {:.2f} x as fast: numerics.bf16={} for new bf16 runs",
      name_of(taken), other, gain, other);
}

double gain_of_other_order(Runtime& runtime) {
  if (!ops::has_instruction_of(other_than(ops::usual_bf16_order()))) return 0;
  GemmBench bench(runtime, {.rounds = 3, .sample_seconds = 0.01, .rivals = false, .type = DType::bf16});
  GemmReport report;
  report.rows = {bench.measure("", {"", 256, 1024, 1024, 1}, ProductKind::forward)};
  return report.mean_of_other_order();
}

GemmReport bench_gemm(Runtime& runtime, const GemmBenchOptions& options, const std::function<void(const GemmRow&)>& progress) {
  GemmReport report;
  report.type = options.type;
  report.order = ops::usual_bf16_order();
  report.threads = runtime.team().size();
  if (std::getenv("OPENBLAS_L2_SIZE") != nullptr)
    report.notes.emplace_back("OPENBLAS_L2_SIZE is set and may slow OpenBLAS down: unset it and measure again");
  GemmBench bench(runtime, options);
  report.contenders = bench.contenders();
  for (std::string& note : bench.notes()) report.notes.push_back(std::move(note));
  for (const std::string& model : options.models) {
    for (const LayerShape& shape : layer_shapes(model)) {
      for (const ProductKind kind : {ProductKind::forward, ProductKind::backward_input, ProductKind::backward_weight}) {
        if (!(kind == ProductKind::forward ? shape.forward : shape.backward)) continue;
        report.rows.push_back(bench.measure(model, shape, kind));
        if (progress) progress(report.rows.back());
      }
    }
  }
  if (const std::string note = order_note(report.order, report.mean_of_other_order()); !note.empty())
    report.notes.push_back(note);
  const bool measured =
      std::ranges::any_of(report.rows, [](const GemmRow& row) { return row.onednn.median > 0 || row.openblas.median > 0; });
  if (options.rivals && options.type == DType::bf16 && !report.rows.empty() && !measured)
    report.notes.emplace_back("no library here has a bf16 product on this processor");
  return report;
}

}  // namespace lockstep::lab
