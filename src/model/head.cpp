#include "model/head.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/sum_tree.h"
#include "layout/canonical_grid.h"

namespace lockstep::model {

using arch::Role;

std::int64_t logit_rows(const layout::ShardedDims& dims, std::int64_t rows) {
  constexpr std::int64_t multiple = 256;
  constexpr std::int64_t elements = 2 << 20;
  // By the greatest part of a divided vocabulary: ranks judge the same chunks together.
  const std::int64_t fitting = std::max<std::int64_t>(1, elements / (dims.greatest_vocabulary * multiple)) * multiple;
  return std::min(rows, fitting);
}

void declare(Arena& arena, HeadMemory& memory, const layout::ShardedDims& dims, const Rows& rows, DType type, bool training,
             bool canonical) {
  const Arena::Mark start = arena.mark();
  const Shape inside{rows.inside, dims.width}, outside{rows.outside, dims.width};
  arena.declare(memory.normed, "normed", outside, type);
  arena.declare(memory.stats, "stats", Shape{rows.outside, 2}, DType::f32);
  arena.declare(memory.logits, "logits", Shape{logit_rows(dims, rows.judged), dims.vocabulary}, DType::f32);
  if (const int parts = canonical ? layout::canonical_ranges : dims.vocabulary_parts; parts > 1) {
    const Shape numbers{parts * memory.logits.rows() * ops::Loss::summary_columns};
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
  const Tensor inside = norm(pass.grid(), x, w);
  return judges_whole() ? context_.canonical->samples().gather(context_.ops, inside, pass.parts) : inside;
}

const Tensor& Head::projection(const WeightSet& w) const {
  const Tensor& own = w[Role::head_weight];
  return own ? own : w[projection_];
}

Tensor Head::judged(const Tensor& matrix) const {
  if (!judges_whole()) return matrix;
  const layout::Range& tokens = context_.canonical->judged();
  return matrix.slice_rows(tokens.first, tokens.count);
}

Tensor Head::logits_of(std::int64_t count) const {
  if (!judges_whole()) return memory_.logits.slice_rows(0, count);
  const std::int64_t tokens = context_.canonical->judged().count;
  return memory_.logits.flat(0, count * tokens).reshape(Shape{count, tokens});
}

void Head::judge(const Tensor& logits, const Objective& chunk) {
  const layout::ShardedDims& dims = context_.dims;
  if (context_.canonical != nullptr) {
    std::array<ops::VocabularyPart, layout::canonical_ranges> own;
    const std::int64_t first_token = dims.first_token + context_.canonical->judged().first;
    int count = 0;
    for (const std::vector<ops::IndexRun>& range : context_.canonical->vocabulary.ranges) {
      const ops::IndexRun& run = range.front();
      own[static_cast<std::size_t>(count)] = {context_.canonical->first_vocabulary_range() + count, first_token + run.first,
                                              run.count};
      ++count;
    }
    return judge_parts(logits, chunk, std::span(own).first(static_cast<std::size_t>(count)), layout::canonical_ranges);
  }
  if (dims.vocabulary_parts == 1) {
    context_.ops.loss().forward(logits, chunk.targets, dims.vocabulary, chunk.scale, chunk.loss);
    return;
  }
  const ops::VocabularyPart part{dims.vocabulary_part, dims.first_token, dims.vocabulary};
  judge_parts(logits, chunk, {&part, 1}, dims.vocabulary_parts);
}

void Head::judge_parts(const Tensor& logits, const Objective& chunk, std::span<const ops::VocabularyPart> own, int parts) {
  const std::int64_t numbers = logits.rows() * ops::Loss::summary_columns;
  const Tensor summaries = memory_.summaries.flat(0, parts * numbers);
  const auto columns = [&](const ops::VocabularyPart& part) {
    return logits.slice_columns(part.first_token - own.front().first_token, part.tokens);
  };
  for (const ops::VocabularyPart& part : own) {
    const Tensor summary = summaries.flat(part.number * numbers, numbers);
    context_.ops.loss().summarise(summary, columns(part), chunk.targets, part, static_cast<bool>(chunk.scale));
  }
  std::int64_t first = own.front().number, count = std::ssize(own);
  if (judges_whole()) {
    parallel::WholeSamples& samples = context_.canonical->samples();
    first -= samples.rank() * count;
    count *= samples.ranks();
    samples.collect(context_.ops, summaries.flat(first * numbers, count * numbers));
  }
  if (context_.dims.vocabulary_parts > 1)
    boundary_.collect(summaries, summaries.flat(first * numbers, count * numbers)).join(context_.ops.stream());
  for (const ops::VocabularyPart& part : own) {
    // Every part says the same loss.
    const bool tells = &part == &own.front() && (!judges_whole() || context_.canonical->samples().rank() == 0);
    context_.ops.loss().finish(columns(part), chunk.targets, part, summaries, chunk.scale, tells ? chunk.loss : Tensor{});
  }
}

void Head::learn(const Tensor& inside, const Tensor& partial, const ops::IndexRun& rows, const Objective& objective,
                 const Tensor& projection, ops::WeightSink& sink, const Tensor& gradient, bool accumulate) {
  for (std::int64_t first = rows.first; first < rows.end(); first += memory_.logits.rows()) {
    const std::int64_t count = std::min(memory_.logits.rows(), rows.end() - first);
    const Tensor normed = inside.slice_rows(first, count);
    const Tensor logits = logits_of(count);
    context_.ops.linear().forward(logits, normed, projection);
    judge(logits, {objective.targets.flat(first, count), objective.loss, objective.scale});
    context_.ops.linear().backward_input(partial.slice_rows(first, count), logits, projection,
                                         {.grid = context_.grid(&Canonical::vocabulary)});
    sink.push({normed, logits, gradient, {}, first > rows.first || accumulate});
  }
}

void Head::learn_ranges(const Tensor& inside, const Tensor& partial, const Objective& objective, const Tensor& projection,
                        const Gradients& gradients) {
  const Tensor& gradient = gradients.set[projection_];
  if (judges_whole()) context_.ops.elementwise().zero(gradient);
  const auto place = [&](int number) { return judged(context_.canonical->head_place(gradient, number)); };
  for (int range = 0; range < context_.canonical->sample_ranges(); ++range) {
    const ops::IndexRun& run = context_.canonical->tokens.ranges[static_cast<std::size_t>(range)].front();
    const Tensor to = place(place_in_tree(range));
    if (run.count == 0) context_.ops.elementwise().zero(to);
    learn(inside, partial, run, {objective.targets, objective.loss.flat(range, 1), objective.scale}, projection, gradients.sink,
          to, false);
    merge_behind(range, [&](int below, int above) { context_.ops.elementwise().add(place(below), place(above)); });
  }
}

Tensor Head::partial_of(std::int64_t rows) const {
  if (judges_whole()) return memory_.judged.slice_rows(0, rows);
  return (boundary_.kind() == parallel::BoundaryKind::local ? memory_.d_normed : memory_.partial).slice_rows(0, rows);
}

Tensor Head::left(const Pass& pass, const Tensor& x, const Tensor& partial) {
  const bool local = boundary_.kind() == parallel::BoundaryKind::local;
  Tensor inside = partial;
  if (judges_whole()) {
    parallel::WholeSamples& samples = context_.canonical->samples();
    samples.add_up(context_.ops, partial);
    inside = (local ? memory_.d_normed : memory_.partial).slice_rows(0, pass.rows());
    samples.take_own(context_.ops, inside, partial, pass.parts);
  }
  if (local) return inside;
  const Tensor sums = x.rows() < inside.rows() ? memory_.sums.slice_rows(0, x.rows()) : inside;
  boundary_.reduce(sums, inside, pass.grid()).wait();
  return rounded(context_, sums, memory_.d_normed);
}

void Head::loss_and_gradient(const Pass& pass, const Tensor& x, const Objective& objective, const WeightSet& w,
                             const Gradients& gradients, const Tensor& d) {
  const Tensor inside = norm_judged(pass, x, w);
  const Tensor partial = partial_of(inside.rows());
  if (context_.canonical != nullptr) {
    learn_ranges(inside, partial, objective, judged(projection(w)), gradients);
  } else {
    learn(inside, partial, {0, inside.rows()}, objective, projection(w), gradients.sink, gradients.set[projection_],
          gradients.set.accumulate);
  }
  const ops::NormBackward back{.dx = d,
                               .n = {},
                               .d_gain = gradients.set[Role::final_gain],
                               .d_bias = gradients.set[Role::final_bias],
                               .dn = left(pass, x, partial),
                               .x = x,
                               .stats = memory_.stats.slice_rows(0, x.rows()),
                               .gain = w[Role::final_gain],
                               .bias = w[Role::final_bias],
                               .residual = {},
                               .accumulate = gradients.set.accumulate};
  if (context_.canonical != nullptr) return context_.canonical->norm_backward(context_.ops, norm_, boundary_, pass, back);
  norm_.backward(back);
}

void Head::loss(const Pass& pass, const Tensor& x, const Objective& objective, const WeightSet& w) {
  const Tensor inside = norm_judged(pass, x, w);
  for (std::int64_t first = 0; first < inside.rows(); first += memory_.logits.rows()) {
    const std::int64_t count = std::min(memory_.logits.rows(), inside.rows() - first);
    const Tensor logits = logits_of(count);
    context_.ops.linear().forward(logits, inside.slice_rows(first, count), judged(projection(w)));
    judge(logits, {objective.targets.flat(first, count), objective.loss});
  }
}

void Head::logits(const Tensor& logits, const Tensor& x, const WeightSet& w) {
  context_.ops.linear().forward(logits, norm({1, logits.rows()}, x, w), projection(w));
}

}  // namespace lockstep::model
