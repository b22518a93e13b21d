#include "model/head.h"

#include <algorithm>

#include "base/sum_tree.h"

namespace lockstep::model {

using arch::Role;

std::int64_t logit_rows(const layout::ShardedDims& dims, std::int64_t rows) {
  constexpr std::int64_t multiple = 256;
  constexpr std::int64_t elements = 2 << 20;
  // By the greatest part of a divided vocabulary: ranks judge the same chunks together.
  const std::int64_t fitting = std::max<std::int64_t>(1, elements / (dims.greatest_vocabulary * multiple)) * multiple;
  return std::min(rows, fitting);
}

void declare(Arena& arena, HeadMemory& memory, const layout::ShardedDims& dims, const Rows& rows, DType type, int judgers,
             bool training) {
  const Arena::Mark start = arena.mark();
  const Shape inside{rows.inside, dims.width}, outside{rows.outside, dims.width};
  arena.declare(memory.normed, "normed", outside, type);
  arena.declare(memory.stats, "stats", Shape{rows.outside, 2}, DType::f32);
  arena.declare(memory.logits, "logits", Shape{logit_rows(dims, rows.judged), dims.vocabulary}, DType::f32);
  if (dims.caps_logits && training) arena.declare(memory.tanhs, "tanhs", memory.logits.shape, DType::f32);
  if (judgers > 1) {
    const Shape numbers{judgers * memory.logits.rows() * ops::Loss::summary_columns};
    arena.declare(memory.summaries, "summaries", numbers, DType::f64);
  }
  if (training) arena.declare(memory.d_normed, "d_normed", outside, type);
  if (rows.split()) arena.declare(memory.normed_inside, "normed_inside", inside, type);
  if (rows.carries() && training) {
    arena.declare(memory.partial, "partial", inside, DType::f32);
    if (rows.split()) arena.declare(memory.sums, "sums", outside, DType::f32);
  }
  if (rows.judged > rows.inside && training) arena.declare(memory.judged, "judged", Shape{rows.judged, dims.width}, DType::f32);
  arena.rewind(start);
}

Tensor Head::norm(const parallel::TokenGrid& tokens, const Tensor& x, const WeightSet& w) {
  const Tensor normed = memory_.normed.slice_rows(0, x.rows());
  norm_.forward(normed, memory_.stats.slice_rows(0, x.rows()), x, w[Role::final_gain], w[Role::final_bias],
                context_.config.norm_eps);
  if (boundary_.kind() != parallel::BoundaryKind::splitting) return normed;
  const Tensor inside = memory_.normed_inside.slice_rows(0, tokens.rows());
  boundary_.gather(inside, normed, tokens).wait();
  return inside;
}

Tensor Head::norm_judged(const Pass& pass, const Tensor& x, const WeightSet& w) {
  return sums_.samples.gather(context_.ops, norm(pass.grid(), x, w), pass.parts);
}

const Tensor& Head::projection(const WeightSet& w) const {
  const Tensor& own = w[Role::head_weight];
  return own ? own : w[projection_];
}

Tensor Head::judged(const Tensor& matrix) const {
  return sums_.samples.divided() ? matrix.slice_rows(sums_.judged.first, sums_.judged.count) : matrix;
}

void Head::make_logits(const Tensor& logits, const Tensor& normed, const Tensor& projection, const Tensor& tanhs) {
  context_.ops.linear().forward(logits, normed, projection);
  scale(logits);
  const auto cap = static_cast<float>(context_.config.logit_softcap);
  if (cap > 0) context_.ops.elementwise().soft_cap(logits, tanhs, cap);
}

Tensor Head::judge(const Tensor& normed, const Tensor& projection, const Objective& chunk) {
  const std::int64_t rows = normed.rows(), tokens = sums_.judged.count;
  const Tensor logits = memory_.logits.flat(0, rows * tokens).reshape(Shape{rows, tokens});
  const Tensor tanhs = chunk.scale && memory_.tanhs ? memory_.tanhs.flat(0, rows * tokens).reshape(logits.shape) : Tensor{};
  make_logits(logits, normed, projection, tanhs);
  if (sums_.all_judgers > 1) {
    judge_parts(logits, chunk);
  } else {
    context_.ops.loss().forward(logits, chunk.targets, tokens, chunk.scale, chunk.loss);
  }
  if (tanhs) context_.ops.elementwise().soft_cap_backward(logits, tanhs);
  if (chunk.scale) scale(logits);
  return logits;
}

void Head::scale(const Tensor& logits) {
  const auto factor = static_cast<float>(context_.config.logit_scale);
  if (factor != 1) context_.ops.elementwise().scale(logits, factor);
}

void Head::judge_parts(const Tensor& logits, const Objective& chunk) {
  const std::vector<ops::VocabularyPart>& own = sums_.judgers;
  const std::int64_t numbers = logits.rows() * ops::Loss::summary_columns;
  const Tensor summaries = memory_.summaries.flat(0, sums_.all_judgers * numbers);
  const auto columns = [&](const ops::VocabularyPart& part) {
    return logits.slice_columns(part.first_token - own.front().first_token, part.tokens);
  };
  for (const ops::VocabularyPart& part : own) {
    const Tensor summary = summaries.flat(part.number * numbers, numbers);
    context_.ops.loss().summarise(summary, columns(part), chunk.targets, part, static_cast<bool>(chunk.scale));
  }
  const std::int64_t count = std::ssize(own), first = own.front().number - sums_.samples.rank() * count;
  const Tensor of_samples = summaries.flat(first * numbers, sums_.samples.ranks() * count * numbers);
  sums_.samples.collect(context_.ops, of_samples);
  if (context_.dims.vocabulary_parts > 1) boundary_.collect(summaries, of_samples).join(context_.ops.stream());
  for (const ops::VocabularyPart& part : own) {
    // Every part says the same loss. Samples that are judged whole are so on every rank.
    const bool tells = &part == &own.front() && (sums_.samples.rank() == 0 || chunk.samples.judge != nullptr);
    context_.ops.loss().finish(columns(part), chunk.targets, part, summaries, chunk.scale, tells ? chunk.loss : Tensor{});
  }
}

std::int64_t Head::chunk_rows(const Objective& objective, const ops::IndexRun& rows, std::int64_t all) const {
  const std::int64_t fitting = std::min(memory_.logits.rows(), rows.count);
  if (objective.samples.judge == nullptr) return fitting;
  const std::int64_t sample = all / objective.samples.losses.elements();
  return std::min(fitting, sample - rows.first % sample);
}

void Head::judge_samples(const Tensor& inside, const Objective& objective, const Tensor& projection) {
  const std::int64_t all = inside.rows(), sample = all / objective.samples.losses.elements();
  for (std::int64_t first = 0, count = 0; first < all; first += count) {
    count = chunk_rows(objective, {first, all - first}, all);
    const Tensor loss = objective.samples.losses.flat(first / sample, 1);
    judge(inside.slice_rows(first, count), projection, {objective.targets.flat(first, count), loss, {}, objective.samples});
  }
  sums_.complete_samples(objective.samples.losses);
}

void Head::learn(const Tensor& inside, const Tensor& partial, const Objective& objective, const Tensor& projection,
                 const Gradients& gradients) {
  const Tensor& gradient = gradients.set[projection_];
  if (gradient && sums_.samples.divided()) context_.ops.elementwise().zero(gradient);
  const auto place = [&](int number) { return gradient ? judged(sums_.head_place(gradient, number)) : Tensor{}; };
  for (int range = 0; range < sums_.sample_ranges(); ++range) {
    const ops::IndexRun rows = sums_.range_rows(range, inside.rows());
    const Tensor to = place(place_in_tree(range)), loss = objective.loss.flat(range, 1);
    if (to && rows.count == 0) context_.ops.elementwise().zero(to);
    for (std::int64_t first = rows.first, count = 0; first < rows.end(); first += count) {
      count = chunk_rows(objective, {first, rows.end() - first}, inside.rows());
      const Tensor normed = inside.slice_rows(first, count), factors = objective.samples.factors;
      const Tensor scale = factors ? factors.flat(first * factors.elements() / inside.rows(), 1) : objective.scale;
      const Tensor logits = judge(normed, projection, {objective.targets.flat(first, count), loss, scale});
      context_.ops.linear().backward_input(partial.slice_rows(first, count), logits, projection,
                                           {.grid = context_.grid(&Sums::vocabulary)});
      if (to) gradients.sink.push({normed, logits, to, {}, first > rows.first || gradients.set.accumulate});
    }
    if (!to) continue;
    merge_behind(range, [&](int below, int above) { context_.ops.elementwise().add(place(below), place(above)); });
  }
}

Tensor Head::left(const Pass& pass, const Tensor& x, const Tensor& partial) {
  Tensor inside = partial;
  if (sums_.samples.divided()) {
    sums_.samples.add_up(context_.ops, partial);
    inside = partial_inside().slice_rows(0, pass.rows());
    sums_.samples.take_own(context_.ops, inside, partial, pass.parts);
  }
  if (is_local()) return inside;
  const Tensor sums = x.rows() < inside.rows() ? memory_.sums.slice_rows(0, x.rows()) : inside;
  boundary_.reduce(sums, inside, pass.grid()).wait();
  return rounded(context_, sums, memory_.d_normed);
}

void Head::loss_and_gradient(const Pass& pass, const Tensor& x, const Objective& objective, const WeightSet& w,
                             const Gradients& gradients, const Tensor& d) {
  const Tensor inside = norm_judged(pass, x, w);
  const Tensor partial = (sums_.samples.divided() ? memory_.judged : partial_inside()).slice_rows(0, inside.rows());
  if (objective.samples.judge != nullptr) {
    judge_samples(inside, objective, judged(projection(w)));
    objective.samples.judge->weigh(objective.samples.microbatch);
  }
  learn(inside, partial, objective, judged(projection(w)), gradients);
  sums_.norm_backward(norm_, boundary_, pass,
                      {.dx = d,
                       .n = {},
                       .d_gain = gradients.set[Role::final_gain],
                       .d_bias = gradients.set[Role::final_bias],
                       .dn = left(pass, x, partial),
                       .x = x,
                       .stats = memory_.stats.slice_rows(0, x.rows()),
                       .gain = w[Role::final_gain],
                       .bias = w[Role::final_bias],
                       .residual = {},
                       .accumulate = gradients.set.accumulate});
}

void Head::loss(const Pass& pass, const Tensor& x, const Objective& objective, const WeightSet& w) {
  const Tensor inside = norm_judged(pass, x, w);
  if (objective.samples.judge != nullptr) return judge_samples(inside, objective, judged(projection(w)));
  for (std::int64_t first = 0; first < inside.rows(); first += memory_.logits.rows()) {
    const std::int64_t count = std::min(memory_.logits.rows(), inside.rows() - first);
    judge(inside.slice_rows(first, count), judged(projection(w)), {objective.targets.flat(first, count), objective.loss});
  }
}

void Head::logits(const Tensor& logits, const Tensor& x, const WeightSet& w) {
  make_logits(logits, norm({1, logits.rows()}, x, w), projection(w), {});
}

}  // namespace lockstep::model
