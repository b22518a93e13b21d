#include "ops/cpu/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "ops/cpu/isa.h"
#include "tensor/bfloat16.h"

namespace lockstep::ops::cpu {
namespace {

/// Rows of sample `sample` of the matrix `tensor`, `rows` a sample, from column `column`.
StoredRows head_rows(const Tensor& tensor, std::int64_t sample, std::int64_t rows, std::int64_t column) {
  return StoredRows{tensor.data, tensor.stride(), tensor.dtype}.from(sample * rows).columns_from(column);
}

/// The rows where dq is summed: dq itself or, where it is bf16, what follows delta's own floats.
Tensor sums_of(const Tensor& dq, const Tensor& delta, const AttentionShape& shape) {
  if (dq.dtype == DType::f32) return dq;
  const std::int64_t own = shape.samples * shape.heads * shape.queries;
  return delta.reshape({delta.elements()}).flat(own, dq.elements()).reshape({dq.rows(), dq.columns()});
}

float scale_of(const AttentionShape& shape) { return static_cast<float>(shape.score_scale()); }
float softcap_of(const AttentionShape& shape) { return static_cast<float>(shape.softcap / shape.score_scale()); }

const DropoutSite* active(const DropoutSite& dropout) { return dropout.p > 0 ? &dropout : nullptr; }

/// The order of backward tasks. `abreast` heads, one for each worker, go side by side, column by column. So a column's
/// predecessor was begun that many tasks before.
class Columns {
 public:
  Columns(std::int64_t heads, std::int64_t blocks, std::int64_t abreast) : heads_(heads), blocks_(blocks), abreast_(abreast) {}
  struct Place {
    std::int64_t head, block;
    std::int64_t before;  ///< the task of the same head's previous block, if block > 0
  };
  Place at(std::int64_t task) const {
    const std::int64_t first = task / (abreast_ * blocks_) * abreast_;  // head of the run
    const std::int64_t in_run = std::min(abreast_, heads_ - first);
    const std::int64_t in_task = task - first * blocks_;
    return {first + in_task % in_run, in_task / in_run, task - in_run};
  }

 private:
  std::int64_t heads_, blocks_, abreast_;
};

/// What the tasks of a backward pass are about: key/value heads, or parts of those that read them.
class KeyHeads {
 public:
  explicit KeyHeads(const AttentionBackward& call) : call_(call) {}
  std::int64_t count() const { return call_.parts.empty() ? call_.shape.kv_heads : std::ssize(call_.parts); }
  HeadPart at(std::int64_t i) const {
    if (!call_.parts.empty()) return call_.parts[static_cast<std::size_t>(i)];
    const std::int64_t first = call_.shape.first_head_of(i);
    return {i, first, call_.shape.first_head_of(i + 1) - first};
  }
  /// Where their gradients of keys (0) and of values (1) are left.
  Tensor result(std::int64_t of) const {
    const Tensor& whole = of == 0 ? call_.dk : call_.dv;
    return call_.parts.empty() ? whole : part_sums(of);
  }
  Tensor part_sums(std::int64_t of) const {
    const Shape shape{call_.k.rows(), count() * call_.shape.head_size};
    return call_.part_sums.reshape({2 * shape.elements()}).flat(of * shape.elements(), shape.elements()).reshape(shape);
  }

 private:
  const AttentionBackward& call_;
};

void store(const Tensor& to, std::int64_t row, std::int64_t column, const float* from, std::int64_t count) {
  if (to.dtype == DType::f32) {
    std::copy_n(from, count, row_of(to, row) + column);
  } else {
    std::transform(from, from + count, row_of<BFloat16>(to, row) + column, [](float x) { return to_bfloat16(x); });
  }
}

/// A row of `to`, from those of its parts, which are used up.
void add_row(const Tensor& to, const Tensor& sums, std::int64_t row, std::span<const HeadPart> parts, std::int64_t size) {
  for (std::size_t begin = 0; begin < parts.size();) {
    const std::int64_t kv_head = parts[begin].kv_head;
    std::array<float*, most_head_ranges> ranges{};  // null: nothing of the range
    for (; begin < parts.size() && parts[begin].kv_head == kv_head; ++begin)
      ranges[static_cast<std::size_t>(parts[begin].range)] = row_of(sums, row) + static_cast<std::int64_t>(begin) * size;
    for (std::size_t apart = 1; apart < ranges.size(); apart *= 2) {
      for (std::size_t i = 0; i < ranges.size(); i += 2 * apart) {
        float* const other = ranges[i + apart];
        if (ranges[i] == nullptr) {
          ranges[i] = other;
        } else if (other != nullptr) {
          for (std::int64_t j = 0; j < size; ++j) ranges[i][j] += other[j];
        }
      }
    }
    store(to, row, kv_head * size, ranges.front(), size);
  }
}

void wait_for(const Progress& progress, std::int64_t steps) {
  while (progress.steps.load(std::memory_order_acquire) < steps) std::this_thread::yield();
}

/// Whether dq, dk and dv, which weight gradients read next, go past the caches: heads begin with a cache line too.
bool streams(const Team& team, const AttentionBackward& call, const Tensor& dk, const Tensor& dv) {
  const std::size_t head_bytes = static_cast<std::size_t>(call.shape.head_size) * size_of(call.dq.dtype);
  const auto past_caches = [&](const Tensor& to) { return stored_past_caches(team, to); };
  return head_bytes % cache_line == 0 && call.parts.empty() && past_caches(call.dq) && past_caches(dk) && past_caches(dv);
}

}  // namespace

CpuAttention::CpuAttention(const Context& context, Product& products, PlainProducts* plain)
    : Attention(context.observer),
      context_(context),
      materialised_(context, products, plain),
      thin_(thin_kernel_for(context.isa)),
      slots_(std::int64_t{16} * context.team.size()) {
  const ScopedIsa scope(context.isa);
  forward_ = attention_forward_kernel();
  delta_ = attention_delta_kernel();
  backward_ = attention_backward_kernel();
  memory_ = host_memory().allocate(static_cast<std::size_t>(workspace_floats() * context.team.size()) * sizeof(float));
  progress_ = std::make_unique<Progress[]>(static_cast<std::size_t>(slots_));
}

std::int64_t CpuAttention::workspace_bytes() const {
  return narrow<std::int64_t>(memory_.size() + static_cast<std::size_t>(slots_) * sizeof(Progress));
}

float* CpuAttention::workspace(int worker) const {
  return reinterpret_cast<float*>(memory_.data()) + worker * workspace_floats();
}

void CpuAttention::do_forward(const AttentionForward& call) {
  const AttentionShape& shape = call.shape;
  ensure(shape.head_size <= max_head_size, "attention: the head size is at most 256");
  if (call.whole) return materialised_.forward(call);
  const std::int64_t tall = forward_rows(shape.head_size), start = shape.first_query(), end = start + shape.queries;
  // Runs end at multiples of `tall`, counted from key 0, so that only one block of keys is masked for each block of queries.
  const std::int64_t first_run = start / tall, runs = div_up(end, tall) - first_run;
  const std::int64_t heads = shape.samples * shape.heads;
  if (shape.queries == 0) return;
  const auto run_of_head = [&](std::int64_t task, int worker) {
    const std::int64_t run = first_run + runs - 1 - task / heads;  // the longest first
    const std::int64_t sample = task % heads / shape.heads, head = task % shape.heads;
    const std::int64_t position = std::max(run * tall, start), row = position - start;
    const std::int64_t column = head * shape.head_size;
    const std::int64_t kv_column = shape.kv_head_of(head) * shape.head_size;
    forward_({.q = head_rows(call.q, sample, shape.queries, column).from(row),
              .k = head_rows(call.k, sample, shape.key_rows, kv_column),
              .v = head_rows(call.v, sample, shape.key_rows, kv_column),
              .o = head_rows(call.o, sample, shape.queries, column).from(row),
              .lse = call.lse ? floats(call.lse) + (sample * shape.heads + head) * shape.queries + row : nullptr,
              .rows = std::min((run + 1) * tall, end) - position,
              .keys = shape.keys,
              .position = position,
              .first_key = shape.first_key,
              .further = call.further,
              .starts = starts_from(call.starts, sample, shape.first_key + position),
              .head_size = shape.head_size,
              .scale = scale_of(shape),
              .softcap = softcap_of(shape),
              .dropout = {active(call.dropout), sample, head},
              .thin = thin_},
             workspace(worker));
  };
  runs > 1 ? context_.team.for_each(heads * runs, run_of_head) : context_.team.for_each_affine(heads, run_of_head);
  context_.stream.progress();
}

void CpuAttention::do_forward(const CachedAttention& call) {
  const AttentionShape& shape = call.shape;
  ensure(shape.head_size <= max_head_size, "attention: the head size is at most 256");
  const std::int64_t tall = forward_rows(shape.head_size);
  const auto head_of_text = [&](std::int64_t task, int worker) {
    const CachedText& text = call.texts[static_cast<std::size_t>(task / shape.heads)];
    const std::int64_t head = task % shape.heads, column = head * shape.head_size, end = text.position + text.rows;
    const std::int64_t kv_column = shape.kv_head_of(head) * shape.head_size;
    // Runs end at multiples of `tall`, as those of a call for whole samples do.
    for (std::int64_t position = text.position, next = 0; position < end; position = next) {
      next = std::min((position / tall + 1) * tall, end);
      const std::int64_t row = text.first + position - text.position;
      forward_({.q = head_rows(call.q, 0, 0, column).from(row),
                .k = head_rows(call.k, 0, 0, kv_column),
                .v = head_rows(call.v, 0, 0, kv_column),
                .o = head_rows(call.o, 0, 0, column).from(row),
                .rows = next - position,
                .keys = end,
                .position = position,
                .starts = starts_from(call.starts, 0, position),
                .head_size = shape.head_size,
                .scale = scale_of(shape),
                .softcap = softcap_of(shape),
                .dropout = {},
                .thin = thin_,
                .pages = reinterpret_cast<const std::int32_t*>(call.pages.data) + text.text * call.pages.stride()},
               workspace(worker));
    }
  };
  context_.team.for_each_affine(std::ssize(call.texts) * shape.heads, head_of_text);
  context_.stream.progress();
}

void CpuAttention::compute_delta(const Tensor& delta, const Tensor& d_o, const Tensor& o, const AttentionShape& shape) {
  context_.team.for_each_affine(shape.samples * shape.heads, [&](std::int64_t task, int) {
    const std::int64_t sample = task / shape.heads, column = task % shape.heads * shape.head_size;
    delta_({.d_o = head_rows(d_o, sample, shape.queries, column),
            .o = head_rows(o, sample, shape.queries, column),
            .delta = floats(delta) + task * shape.queries,
            .rows = shape.queries,
            .head_size = shape.head_size});
  });
}

void CpuAttention::add_parts(const AttentionBackward& call, const Tensor& dk, const Tensor& dv) {
  const AttentionShape& shape = call.shape;
  context_.deal(call.k.rows(), rows_per_tile(2 * dk.columns()), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      if (row % shape.key_rows >= shape.keys) continue;
      add_row(call.dk, dk, row, call.parts, shape.head_size);
      add_row(call.dv, dv, row, call.parts, shape.head_size);
    }
  });
}

void CpuAttention::do_backward(const AttentionBackward& call) {
  const AttentionShape& shape = call.shape;
  ensure(shape.head_size <= max_head_size, "attention: the head size is at most 256");
  compute_delta(call.delta, call.d_o, call.o, shape);
  if (call.whole) return materialised_.backward(call);
  const KeyHeads key_heads(call);
  const std::int64_t rows = shape.queries, start = shape.first_query(), heads = shape.samples * key_heads.count();
  const std::int64_t blocks = div_up(shape.keys, key_block);
  const std::int64_t query_blocks = div_up(start + rows, key_block) - start / key_block;
  const std::int64_t steps = shape.group_size() * query_blocks + 1;  // of the counter, per task: every task has its own numbers
  const Tensor dq_sums = sums_of(call.dq, call.delta, shape);
  const Columns columns(heads, blocks, context_.team.size());
  for (std::int64_t slot = 0; slot < slots_; ++slot) progress_[static_cast<std::size_t>(slot)].steps.store(0);
  const auto last_step = [&](std::int64_t task) {
    return task * steps + key_heads.at(columns.at(task).head % key_heads.count()).count * query_blocks;
  };
  const Tensor dk = key_heads.result(0), dv = key_heads.result(1);
  const bool stream = streams(context_.team, call, dk, dv);
  const auto slot_of = [&](std::int64_t task) -> Progress& { return progress_[static_cast<std::size_t>(task % slots_)]; };
  const auto column_of_blocks = [&](std::int64_t task, int worker) {
    const Columns::Place place = columns.at(task);
    const std::int64_t sample = place.head / key_heads.count(), number = place.head % key_heads.count();
    const auto [kv_head, first_head, group, range] = key_heads.at(number);
    const std::int64_t column = first_head * shape.head_size, kv_column = kv_head * shape.head_size;
    const std::int64_t row_sums = (sample * shape.heads + first_head) * rows;
    // The slot's last user has left it: it is an earlier task, so a worker is at it.
    if (blocks > 1 && task >= slots_) wait_for(slot_of(task), last_step(task - slots_));
    backward_({.q = head_rows(call.q, sample, rows, column),
               .k = head_rows(call.k, sample, shape.key_rows, kv_column),
               .v = head_rows(call.v, sample, shape.key_rows, kv_column),
               .d_o = head_rows(call.d_o, sample, rows, column),
               .dq = head_rows(call.dq, sample, rows, column),
               .dk = head_rows(dk, sample, shape.key_rows, number * shape.head_size),
               .dv = head_rows(dv, sample, shape.key_rows, number * shape.head_size),
               .dq_sums = head_rows(dq_sums, sample, rows, column),
               .stream = stream,
               .lse = floats(call.lse) + row_sums,
               .delta = floats(call.delta) + row_sums,
               .rows = rows,
               .keys = shape.keys,
               .position = start,
               .first_key = shape.first_key,
               .further = call.further,
               .starts = starts_from(call.starts, sample, shape.first_key + start),
               .block = place.block,
               .group = group,
               .head_size = shape.head_size,
               .scale = scale_of(shape),
               .softcap = softcap_of(shape),
               .dropout = {active(call.dropout), sample, first_head},
               .own = &slot_of(task),
               .own_base = task * steps,
               .before = place.block > 0 ? &slot_of(place.before) : nullptr,
               .before_base = place.before * steps},
              workspace(worker));
  };
  // Where heads have one block, none waits for another.
  blocks > 1 ? context_.team.for_each(heads * blocks, column_of_blocks) : context_.team.for_each_affine(heads, column_of_blocks);
  if (!call.parts.empty()) add_parts(call, dk, dv);
  context_.stream.progress();
}

}  // namespace lockstep::ops::cpu
