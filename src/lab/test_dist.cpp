#include "lab/test_dist.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/math/elementary.h"
#include "base/rng.h"
#include "base/timer.h"
#include "tensor/arena.h"

namespace lockstep::lab {
namespace {

constexpr ops::AdamW adam{.beta1 = 0.9F, .beta2 = 0.999F, .eps = 1e-8F, .weight_decay = 0};
constexpr float adam_learning_rate = 1e-3F;
constexpr std::int64_t alignment = 16;  // floats: every layer starts on a line of its own

}  // namespace

std::string to_line(const TestDistIteration& i) {
  return fmt::format("iter={}, loss={:.6g}, sps={:.4g}, dt={:4g}, dtf={:.4g}, dtb={:.4g}", i.iteration, i.loss,
                     i.samples_per_second, i.seconds, i.forward, i.backward);
}

std::vector<std::int64_t> layer_widths(const TestDistOptions& options) {
  std::vector<std::int64_t> widths{options.input};
  widths.insert(widths.end(), options.layers.begin(), options.layers.end());
  widths.push_back(options.output);
  return widths;
}

std::int64_t parameters_of(const TestDistOptions& options) {
  const std::vector<std::int64_t> widths = layer_widths(options);
  std::int64_t count = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) count += widths[i + 1] * (widths[i] + 1);
  return count;
}

struct TestDist::Parts {
  struct Layer {
    std::int64_t weight_at, bias_at, in, out;  ///< places among the parameters
    Tensor output, d_output;                   ///< [batch, out]
  };

  Parts(TestDistOptions given, Runtime& runtime, ops::Ops& all_ops, comm::Communicator& group)
      : options(std::move(given)), ops(all_ops), world(group), samples(options.seed, "test_dist.samples") {
    const std::vector<std::int64_t> widths = layer_widths(options);
    std::int64_t count = 0;
    const auto place = [&count](std::int64_t size) { return std::exchange(count, count + round_up(size, alignment)); };
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      const std::int64_t in = widths[i], out = widths[i + 1];
      const std::int64_t weight_at = place(in * out);
      layers.push_back({weight_at, place(out), in, out, {}, {}});
    }
    declare(count);
    Ledger ledger;
    memory.commit(runtime, ledger);
    gradients.commit(world.window(runtime.memory()), ledger);
    initialise();
  }

  void declare(std::int64_t count) {
    gradients.declare(gradient, "gradient", Shape{count}, DType::f32);
    memory.declare(weights, "weights", Shape{count}, DType::f32);
    memory.declare(exp_avg, "exp_avg", Shape{count}, DType::f32);
    memory.declare(exp_avg_sq, "exp_avg_sq", Shape{count}, DType::f32);
    memory.declare(scalars.values, "scalars", Shape{ops::StepScalars::count}, DType::f32);
    memory.declare(loss, "loss", Shape{1}, DType::f64);
    memory.declare(input, "input", Shape{options.batch, options.input}, DType::f32);
    memory.declare(negative, "-input", Shape{options.batch, options.input}, DType::f32);
    for (Layer& layer : layers) {
      memory.declare(layer.output, "output", Shape{options.batch, layer.out}, DType::f32);
      memory.declare(layer.d_output, "d_output", Shape{options.batch, layer.out}, DType::f32);
    }
  }

  // As PyTorch starts linear layers: uniform in +-1 / sqrt(inputs). The same on every rank.
  void initialise() {
    const CounterRng start(options.seed, "test_dist.weights");
    for (const Layer& layer : layers) {
      const float bound = 1 / std::sqrt(static_cast<float>(layer.in));
      for (const Tensor& tensor : {weight(weights, layer), bias(weights, layer)}) {
        const std::int64_t first = (tensor.data - weights.data) / static_cast<std::int64_t>(sizeof(float));
        ops.elementwise().uniform(tensor, start, first, -bound, bound);
      }
    }
    scalars[ops::StepScalars::learning_rate] = adam_learning_rate;
    for (const auto one : {ops::StepScalars::clip_factor, ops::StepScalars::loss_scale, ops::StepScalars::finite}) {
      scalars[one] = 1;
    }
  }

  static Tensor weight(const Tensor& of, const Layer& layer) {
    return of.flat(layer.weight_at, layer.out * layer.in).reshape(Shape{layer.out, layer.in});
  }
  static Tensor bias(const Tensor& of, const Layer& layer) { return of.flat(layer.bias_at, layer.out); }

  double forward() {
    const std::int64_t draw = done * world.size() + world.rank();
    ops.elementwise().uniform(input, samples, draw * input.elements(), 0, 1);
    ops.elementwise().cast(negative, input);
    ops.elementwise().scale(negative, -1);
    Tensor x = input;
    for (const Layer& layer : layers) {
      ops::Epilogue epilogue{.bias = bias(weights, layer)};
      if (&layer == &layers.back()) epilogue.residual = negative;  // the last output is y - x
      ops.linear().forward(layer.output, x, weight(weights, layer), epilogue);
      x = layer.output;
    }
    ops.reduce().sum_of_squares(loss.device, x);
    download(ops.stream(), loss);
    return elements<double>(loss.host)[0];
  }

  void backward() {
    ops.elementwise().cast(layers.back().d_output, layers.back().output);
    ops.elementwise().scale(layers.back().d_output, 2);
    for (std::size_t i = layers.size(); i-- > 0;) {
      const Layer& layer = layers[i];
      const Tensor& x = i > 0 ? layers[i - 1].output : input;
      ops.linear().backward_weight(weight(gradient, layer), bias(gradient, layer), layer.d_output, x, false);
      if (i > 0) ops.linear().backward_input(layers[i - 1].d_output, layer.d_output, weight(weights, layer));
    }
  }

  void update() {
    world.all_reduce(gradient, comm::Reduction::mean).join(ops.stream());
    const auto t = static_cast<double>(done + 1);
    scalars[ops::StepScalars::bias_correction1] = static_cast<float>(1 - power(static_cast<double>(adam.beta1), t));
    scalars[ops::StepScalars::bias_correction2] = static_cast<float>(1 - power(static_cast<double>(adam.beta2), t));
    upload(ops.stream(), scalars.values);
    ops.update().adamw({weights, {}, gradient, exp_avg, exp_avg_sq}, adam, scalars.on_device());
  }

  TestDistOptions options;
  ops::Ops& ops;
  comm::Communicator& world;
  CounterRng samples;
  Arena memory{"test_dist", MemoryKind::workspace}, gradients{"test_dist.gradients", MemoryKind::workspace};
  std::vector<Layer> layers;
  Tensor weights, gradient, exp_avg, exp_avg_sq, input, negative;
  ops::WrittenScalars scalars;
  Mirror loss;  // [1] f64
  std::int64_t done = 0;
};

TestDist::TestDist(TestDistOptions options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world)
    : parts_(std::make_unique<Parts>(std::move(options), runtime, ops, world)) {}

TestDist::~TestDist() = default;

Tensor TestDist::weights() const { return parts_->weights; }

TestDistIteration TestDist::step() {
  TestDistIteration result{.iteration = parts_->done};
  const double start = now_seconds();
  result.loss = parts_->forward();
  const double between = now_seconds();
  parts_->backward();
  parts_->update();
  const double end = now_seconds();
  ++parts_->done;
  result.seconds = end - start;
  result.forward = between - start;
  result.backward = end - between;
  result.samples_per_second = static_cast<double>(parts_->options.batch) / result.seconds;
  return result;
}

std::vector<TestDistIteration> TestDist::run(const std::function<void(const TestDistIteration&)>& logged) {
  std::vector<TestDistIteration> history;
  for (std::int64_t i = 0; i < parts_->options.iterations; ++i) {
    const TestDistIteration iteration = step();
    if (i == 0 || i % parts_->options.log_every != 0) continue;
    history.push_back(iteration);
    if (logged) logged(iteration);
  }
  return history;
}

}  // namespace lockstep::lab
