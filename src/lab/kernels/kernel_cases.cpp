// Shapes are odd: rows that fill no block of threads, columns that no vector divides, more than one block of every sum.

#include <array>

#include "lab/kernels/kernel_call.h"

namespace lockstep::lab {
namespace {

using ops::Activation;
using ops::NormForm;

constexpr DType f32 = DType::f32, f64 = DType::f64, i64 = DType::i64;

// --- products ---

constexpr std::int64_t tokens = 131, inputs = 327, outputs = 141;

void linear_forward(KernelCall& c) {
  c.ops().linear().forward(c.result(c.zeros({tokens, outputs})), c.random({tokens, inputs}), c.random({outputs, inputs}),
                           {.bias = c.random({outputs}),
                            .pre_activation = c.result(c.zeros({tokens, outputs})),
                            .activation = Activation::gelu_tanh,
                            .residual = c.random({tokens, outputs})});
}
void linear_gate(KernelCall& c) {
  c.ops().linear().forward(c.result(c.zeros({tokens, outputs})), c.random({tokens, inputs}), c.random({outputs, inputs}),
                           {.activation = Activation::silu, .gate = c.random({tokens, outputs})});
}
void linear_row(KernelCall& c) {
  c.ops().linear().forward(c.result(c.zeros({1, outputs})), c.random({1, inputs}), c.random({outputs, inputs}));
}
void linear_logits(KernelCall& c) {
  c.ops().linear().forward(c.result(c.zeros({tokens, outputs}, f32)), c.random({tokens, inputs}), c.random({outputs, inputs}));
}
void linear_input(KernelCall& c) {
  c.ops().linear().backward_input(c.result(c.zeros({tokens, inputs})), c.random({tokens, outputs}), c.random({outputs, inputs}),
                                  {.pre_activation = c.random({tokens, inputs}),
                                   .activation = Activation::gelu,
                                   .activated = c.result(c.zeros({tokens, inputs}))});
}
void linear_input_gate(KernelCall& c) {
  c.ops().linear().backward_input(c.result(c.zeros({tokens, inputs})), c.random({tokens, outputs}), c.random({outputs, inputs}),
                                  {.pre_activation = c.random({tokens, inputs}),
                                   .activation = Activation::silu,
                                   .gate = c.random({tokens, inputs}),
                                   .d_gate = c.result(c.zeros({tokens, inputs}))});
}
void linear_weight(KernelCall& c) {
  c.ops().linear().backward_weight(c.result(c.random({outputs, inputs}, 1, f32)), c.result(c.random({outputs}, 1, f32)),
                                   c.random({tokens, outputs}), c.random({tokens, inputs}), true);
}
void linear_ranges(KernelCall& c) {
  c.ops().take_sum_grids();
  const ops::SumGrid grid{{{{0, 40}}, {{40, 81}}, {{121, 3}, {124, 203}}, {}}};
  c.ops().linear().forward(c.result(c.zeros({tokens, outputs})), c.random({tokens, inputs}), c.random({outputs, inputs}),
                           {.grid = &grid});
}

// --- attention ---

struct Heads {
  std::int64_t samples = 2, queries = 77, heads = 6, kv_heads = 2, size = 24;
  ops::AttentionShape shape() const {
    return {.samples = samples,
            .queries = queries,
            .keys = queries,
            .key_rows = queries,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_size = size};
  }
  Shape all() const { return {samples * queries, heads * size}; }
  Shape kv() const { return {samples * queries, kv_heads * size}; }
};

void attend(KernelCall& c, const Heads& of, const ops::AttentionShape& shape, const ops::DropoutSite& dropout,
            const Tensor& starts) {
  const Tensor q = c.random(of.all()), k = c.random(of.kv()), v = c.random(of.kv());
  const Tensor o = c.result(c.zeros(of.all())), lse = c.result(c.zeros({of.samples * of.heads, of.queries}, f32));
  c.ops().attention().forward({.o = o, .lse = lse, .q = q, .k = k, .v = v, .shape = shape, .dropout = dropout, .starts = starts});
  c.ops().attention().backward({.dq = c.result(c.zeros(of.all())),
                                .dk = c.result(c.zeros(of.kv())),
                                .dv = c.result(c.zeros(of.kv())),
                                .delta = c.zeros({of.samples * of.queries, ops::delta_columns(of.heads, of.size, c.type())}, f32),
                                .d_o = c.random(of.all()),
                                .o = o,
                                .lse = lse,
                                .q = q,
                                .k = k,
                                .v = v,
                                .shape = shape,
                                .dropout = dropout,
                                .starts = starts});
}
void attention(KernelCall& c) { attend(c, {}, Heads{}.shape(), {}, {}); }
void attention_dropout(KernelCall& c) {
  const Heads of{.samples = 1, .queries = 130, .heads = 3, .kv_heads = 3, .size = 64};
  ops::DropoutSite site{.p = 0.1F, .index_stride = of.queries};
  ops::make_key(site.key, 5, 3, 1, ops::Site::attention_weights);
  attend(c, of, of.shape(), site, {});
}
void attention_documents(KernelCall& c) {
  const Heads of{.size = 128};
  std::vector<std::int32_t> starts;
  for (std::int64_t i = 0; i < of.samples * of.queries; ++i)
    starts.push_back(static_cast<std::int32_t>(i % of.queries / 19 * 19));
  ops::AttentionShape shape = of.shape();
  shape.softcap = 30;
  shape.scale = 0.2;
  attend(c, of, shape, {}, c.whole(starts).reshape(Shape{of.samples, of.queries}));
}
void attention_cached(KernelCall& c) {
  constexpr std::int64_t rows = 5, heads = 6, kv_heads = 2, size = 24, pages = 4;
  static constexpr std::array<ops::CachedText, 2> texts{
      {{.first = 0, .rows = 4, .position = 70, .text = 0}, {.first = 4, .rows = 1, .position = 9, .text = 1}}};
  c.ops().attention().forward(ops::CachedAttention{.o = c.result(c.zeros({rows, heads * size})),
                                                   .q = c.random({rows, heads * size}),
                                                   .k = c.random({pages * ops::page_keys, kv_heads * size}),
                                                   .v = c.random({pages * ops::page_keys, kv_heads * size}),
                                                   .pages = c.whole({3, 1, 0, 2}).reshape(Shape{2, 2}),
                                                   .texts = texts,
                                                   .shape = {.heads = heads, .kv_heads = kv_heads, .head_size = size}});
}

// --- norms ---

constexpr std::int64_t rows = 139, width = 211;

template <NormForm form>
void norm(KernelCall& c) {
  const bool layer = form == NormForm::layer;
  const Tensor x = c.random({rows, width}, 3), gain = c.random({width}), bias = layer ? c.random({width}) : Tensor{};
  const Tensor stats = c.result(c.zeros({rows, 2}, f32));
  c.ops().norm(form).forward(c.result(c.zeros({rows, width})), stats, x, gain, bias, 1e-5F, c.random({rows, width}));
  c.ops().norm(form).backward({.dx = c.result(c.zeros({rows, width})),
                               .n = c.result(c.zeros({rows, width})),
                               .d_gain = c.result(c.random({width}, 1, f32)),
                               .d_bias = layer ? c.result(c.random({width}, 1, f32)) : Tensor{},
                               .dn = c.random({rows, width}),
                               .x = x,
                               .stats = stats,
                               .gain = gain,
                               .bias = bias,
                               .residual = c.random({rows, width}),
                               .accumulate = true});
}
void split_norm(KernelCall& c) {
  const Tensor x = c.random({rows, width}), gain = c.random({width}), dn = c.random({rows, width});
  const Tensor sums = c.result(c.zeros({rows}, f32)), rstd = c.result(c.zeros({rows}, f32)),
               dots = c.result(c.zeros({rows}, f32));
  ops::SplitNorm& norm = c.ops().split_norm();
  norm.squares(sums, x);
  norm.forward(c.result(c.zeros({rows, width})), rstd, x, gain, sums, width, 1e-6F);
  norm.dots(dots, dn, x, rstd, gain);
  norm.gain_gradient(c.result(c.zeros({width}, f32)), dn, x, rstd, false);
  norm.backward(c.result(c.zeros({rows, width})), dn, x, rstd, gain, dots, width);
}

// --- what goes row by row, and element by element ---

void embedding(KernelCall& c) {
  constexpr std::int64_t vocabulary = 53, positions = 23, samples = 9, length = 15;
  const Tensor ids = c.ids(samples * length, vocabulary), dy = c.random({samples * length, width});
  ops::Embedding& family = c.ops().embedding();
  family.forward(c.result(c.zeros({samples * length, width})), ids, c.random({vocabulary, width}), c.random({positions, width}),
                 {3, length});
  family.backward_tokens(c.result(c.random({vocabulary, width}, 1, f32)), dy, ids);
  family.backward_positions(c.result(c.random({positions, width}, 1, f32)), dy, {3, length}, true);
}
void loss(KernelCall& c) {
  constexpr std::int64_t vocabulary = 517, columns = 520;
  std::vector<std::int32_t> targets;
  for (std::int32_t i = 0; i < rows; ++i) targets.push_back(i % 7 == 0 ? -1 : i * 3 % static_cast<std::int32_t>(vocabulary));
  c.ops().loss().forward(c.result(c.random({rows, columns}, 9, f32)), c.whole(targets), vocabulary, c.number(0.01F),
                         c.result(c.zeros({1}, f64)));
}
void loss_in_parts(KernelCall& c) {
  constexpr std::int64_t vocabulary = 517, half = 260;
  const Tensor targets = c.ids(rows, vocabulary), summaries = c.result(c.zeros({2 * rows * ops::Loss::summary_columns}, f64));
  const Tensor scale = c.number(0.01F);
  const std::array<ops::VocabularyPart, 2> parts{{{0, 0, half}, {1, half, vocabulary - half}}};
  const std::array<Tensor, 2> logits{c.result(c.random({rows, half}, 9, f32)),
                                     c.result(c.random({rows, vocabulary - half}, 9, f32))};
  const std::int64_t numbers = rows * ops::Loss::summary_columns;
  for (std::size_t i = 0; i < parts.size(); ++i)
    c.ops().loss().summarise(summaries.flat(static_cast<std::int64_t>(i) * numbers, numbers), logits[i], targets, parts[i], true);
  for (std::size_t i = 0; i < parts.size(); ++i)
    c.ops().loss().finish(logits[i], targets, parts[i], summaries, scale, i == 0 ? c.result(c.zeros({1}, f64)) : Tensor{});
}
void rotary(KernelCall& c) {
  constexpr std::int64_t samples = 3, length = 29, heads = 3, size = 34;
  const Tensor x = c.result(c.random({samples * length, heads * size})), angles = c.random({length + 5, size}, 1, f32);
  c.ops().rotary().rotate(x, angles, {.positions = {5, length}});
  c.ops().rotary().rotate(x, angles, {.positions = {0, length}, .inverse = true});
}
template <Activation f>
void activation(KernelCall& c) {
  const Tensor x = c.random({rows, width}, 4);
  c.ops().activation().forward(c.result(c.zeros({rows, width})), x, f);
  c.ops().activation().backward(c.result(c.zeros({rows, width})), {}, c.random({rows, width}), x, f);
}
void dropout(KernelCall& c) {
  ops::DropoutSite site{.p = 0.2F, .first_sample = 7, .positions = {2, rows}, .first_index = 5, .index_stride = width};
  ops::make_key(site.key, 11, 4, 2, ops::Site::mlp_out);
  c.ops().dropout().forward(c.result(c.zeros({rows, width})), c.random({rows, width}), site, c.random({rows, width}));
  c.ops().dropout().backward(c.result(c.zeros({rows, width})), c.random({rows, width}), site);
}
void elementwise(KernelCall& c) {
  ops::Elementwise& family = c.ops().elementwise();
  const Tensor x = c.result(c.random({rows, width}));
  family.add(x, c.random({rows, width}));
  family.scale(x, 0.37F);
  family.cast(c.result(c.zeros({rows, width}, DType::bf16)), c.random({rows, width}, 1, f32));
  family.cast(c.result(c.zeros({rows, width}, f32)), x);
  family.finish_sums(c.result(c.zeros({rows, width})), c.random({rows, width}, 1, f32), c.random({width}),
                     c.random({rows, width}));
}
void soft_cap(KernelCall& c) {
  const Tensor tanhs = c.result(c.zeros({rows, width}, f32)), x = c.result(c.random({rows, width}, 50, f32));
  c.ops().elementwise().soft_cap(x, tanhs, 30);
  c.ops().elementwise().soft_cap_backward(x, tanhs);
}
void random_numbers(KernelCall& c) {
  const CounterRng rng(3, "drawn");
  c.ops().elementwise().normal(c.result(c.zeros({1001}, f32)), rng, 3, 0.1F, 0.02F);
  c.ops().elementwise().uniform(c.result(c.zeros({1001}, f32)), rng, 5, -2, 3);
}
void reduce(KernelCall& c) {
  const Tensor x = c.random({3 * 4096 + 77}, 5);
  c.ops().reduce().sum_of_squares(c.result(c.zeros({1}, f64)), x);
  c.ops().reduce().exact_squares(c.result(c.zeros({ops::Reduce::exact_digits}, i64)), c.random({5001}, 5, f32));
  c.ops().reduce().max_abs(c.result(c.zeros({1}, f64)), x);
}

// --- updates ---

constexpr std::int64_t weights = 5003;

void adamw(KernelCall& c) {
  const bool narrow = c.type() == DType::bf16;
  const ops::RandomRounding random{.key = {1, 2}, .update = 4, .columns = weights, .stride = weights};
  c.ops().update().adamw({.weights = c.result(c.random({weights})),
                          .publish = {},
                          .gradient = c.random({weights}, 1, f32),
                          .exp_avg = c.result(c.random({weights})),
                          .exp_avg_sq = c.result(c.zeros({weights}))},
                         {}, c.step(), narrow ? &random : nullptr);
}
void adamw_master(KernelCall& c) {
  c.ops().update().adamw({.weights = c.result(c.random({weights}, 1, f32)),
                          .publish = c.result(c.zeros({weights}, DType::bf16)),
                          .gradient = c.random({weights}, 1, f32),
                          .exp_avg = c.result(c.random({weights}, 1, f32)),
                          .exp_avg_sq = c.result(c.zeros({weights}, f32))},
                         {}, c.step());
}
void sgd(KernelCall& c) {
  c.ops().update().sgd({.weights = c.result(c.random({weights})),
                        .publish = {},
                        .gradient = c.random({weights}, 1, f32),
                        .momentum_buffer = c.result(c.random({weights}))},
                       {.momentum = 0.9F, .weight_decay = 0.01F}, c.step());
}
void lars(KernelCall& c) {
  c.ops().update().lars({.weights = c.result(c.random({weights})),
                         .publish = {},
                         .gradient = c.random({weights}, 1, f32),
                         .momentum_buffer = c.result(c.random({weights}))},
                        {.momentum = 0.9F, .weight_decay = 0.01F, .trust = 0.3F}, c.step());
}
void direction(KernelCall& c) {
  c.ops().update().direction({.direction = c.result(c.zeros({weights}, f32)),
                              .gradient = c.random({weights}, 1, f32),
                              .momentum_buffer = c.result(c.random({weights}))},
                             0.95F, c.step());
}

// --- what a device keeps ---

void repeated(KernelCall& c) {
  const Tensor x = c.random({tokens, inputs}), w = c.random({outputs, inputs}), y = c.zeros({tokens, outputs}),
               sum = c.result(c.random({tokens, outputs}));
  std::unique_ptr<KeptWork> kept;
  for (int call = 0; call < 4; ++call) {
    c.ops().repeat(kept, [&] {
      c.ops().linear().forward(y, x, w);
      c.ops().elementwise().add(sum, y);
    });
  }
}

}  // namespace

const std::vector<KernelCase>& kernel_cases() {
  static const std::vector<KernelCase> all{
      {"linear", "forward: bias, GELU, residual", linear_forward, true},
      {"linear", "forward: gate", linear_gate, true},
      {"linear", "forward: one row", linear_row, true},
      {"linear", "forward: logits", linear_logits, true},
      {"linear", "forward: by ranges", linear_ranges, true},
      {"linear", "gradient of the input: GELU", linear_input, true},
      {"linear", "gradient of the input: gate", linear_input_gate, true},
      {"linear", "gradient of the weights", linear_weight, true},
      {"attention", "both ways: shared keys", attention, true},
      {"attention", "both ways: dropout", attention_dropout, true},
      {"attention", "both ways: documents, soft cap", attention_documents, true},
      {"attention", "pages of a cache", attention_cached, true},
      {"norm", "LayerNorm, both ways", norm<NormForm::layer>},
      {"norm", "RMSNorm, both ways", norm<NormForm::rms>},
      {"norm", "RMSNorm of 1 + gain, both ways", norm<NormForm::rms_unit_offset>},
      {"split_norm", "all", split_norm},
      {"embedding", "all", embedding},
      {"loss", "whole", loss},
      {"loss", "in parts", loss_in_parts},
      {"rotary", "there and back", rotary},
      {"activation", "GELU", activation<Activation::gelu>},
      {"activation", "GELU by tanh", activation<Activation::gelu_tanh>},
      {"activation", "SiLU", activation<Activation::silu>},
      {"activation", "ReLU", activation<Activation::relu>},
      {"dropout", "both ways", dropout},
      {"elementwise", "sums, casts", elementwise},
      {"elementwise", "soft cap", soft_cap},
      {"elementwise", "random numbers", random_numbers},
      {"reduce", "all", reduce},
      {"update", "AdamW", adamw},
      {"update", "AdamW, fp32 copy", adamw_master},
      {"update", "SGD", sgd},
      {"update", "LARS", lars},
      {"update", "Muon's direction", direction},
      {"graph", "a product and a sum, repeated", repeated, true},
  };
  return all;
}

}  // namespace lockstep::lab
