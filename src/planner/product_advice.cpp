#include "planner/product_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/checked.h"

namespace lockstep::planner {
namespace {

constexpr double bf16_bytes = 2;

bool aligned(std::int64_t size) { return size % kAlignedElements == 0; }

double flops(const ProductCase& of) {
  double sum = 0;
  for (const ModelProduct& product : forward_products(of))
    sum += 2.0 * static_cast<double>(product.m * product.k) * static_cast<double>(product.n) *
           static_cast<double>(product.batch * product.calls);
  return sum;
}

/// The size of a head that is next above the present one among those that are aligned and divide the width; 0: there is none.
std::int64_t next_head_size(const ProductCase& of) {
  const arch::ModelConfig& model = of.model;
  if (model.heads * model.head_size != model.width) return 0;
  constexpr std::int64_t largest = 256;  // that a run may have
  for (std::int64_t size = round_up(model.head_size + 1, kAlignedElements); size <= largest; size += kAlignedElements) {
    if (model.width % size == 0 && model.width / size % of.tensor == 0) return size;
  }
  return 0;
}

class Advisor {
 public:
  Advisor(const ProductCase& of, const Machine& machine) : of_(of), machine_(machine) {}

  std::vector<ProductChange> changes() {
    vocabulary();
    heads();
    feed_forward();
    width();
    tensor();
    microbatch();
    std::ranges::stable_sort(changes_, std::greater<>(), &ProductChange::gain);
    return std::move(changes_);
  }

 private:
  double seconds(const ProductCase& of) const { return products_seconds(of, machine_); }
  /// FLOPs a second and rank, over those of the model as it is.
  double rate_gain(const ProductCase& to) const { return flops(to) / seconds(to) * seconds(of_) / flops(of_); }

  void vocabulary() {
    const std::int64_t size = of_.model.vocabulary, better = round_up(size, kAlignedElements * of_.tensor);
    if (better == size) return;
    ProductCase to = of_;
    to.model.vocabulary = better;
    add(fmt::format("model.vocab_size={}", better),
        fmt::format("a vocabulary of {} is no multiple of {}; ids behind it are never used", size,
                    of_.tensor == 1 ? "64" : fmt::format("64 x {} ranks", of_.tensor)),
        seconds(of_) / seconds(to), true);
  }
  void heads() {
    const arch::ModelConfig& model = of_.model;
    const std::int64_t size = next_head_size(of_);
    constexpr std::int64_t large = 128;
    if (size == 0 || (aligned(model.head_size) && model.head_size >= large)) return;
    ProductCase to = of_;
    to.model.head_size = size;
    to.model.heads = model.width / size;
    if (model.kv_heads == model.heads) {
      to.model.kv_heads = to.model.heads;
    } else if (to.model.heads % model.kv_heads != 0) {
      return;
    }
    add(fmt::format("model.n_head={}", to.model.heads),
        fmt::format("heads of {} {}; they should be as large as accuracy allows, and a multiple of 64", model.head_size,
                    aligned(model.head_size) ? "leave tiles half empty" : "are no multiple of 64"),
        rate_gain(to), !aligned(model.head_size));
  }
  void feed_forward() {
    const std::int64_t unit = kAlignedElements * of_.tensor, size = of_.model.ffn_width;
    if (size % unit == 0) return;
    ProductCase to = of_;
    to.model.ffn_width = std::max(unit, (size + unit / 2) / unit * unit);
    add(fmt::format("model.ffn_width={}", to.model.ffn_width),
        fmt::format("{} columns a rank of the feed-forward layer are no multiple of 64{}", div_up(size, of_.tensor),
                    of_.model.gated ? "; bench swiglu measures widths around 8/3 of the model's" : ""),
        rate_gain(to), true);
  }
  void width() {
    const arch::ModelConfig& model = of_.model;
    if (aligned(model.width)) return;
    ProductCase to = of_;
    to.model.width = round_up(model.width, kAlignedElements);
    std::string heads;
    if (model.heads * model.head_size == model.width) heads = share_out(to);
    add(fmt::format("model.n_embd={}{}", to.model.width, heads),
        fmt::format("a width of {} is no multiple of 64, and every product has it", model.width), rate_gain(to), true);
  }
  /// Divides a wider model among heads. There are as many heads as now, each with more features, where the width hardly grows by
  /// that. Otherwise heads have 64 features. Returns the setting for the number of heads.
  std::string share_out(ProductCase& to) const {
    const arch::ModelConfig& model = of_.model;
    const std::int64_t same = round_up(model.width, kAlignedElements * model.heads), other = to.model.width / kAlignedElements;
    const bool divides = other % of_.tensor == 0 && (model.kv_heads == model.heads || other % model.kv_heads == 0);
    if (8 * (same - model.width) <= model.width || !divides) {
      to.model.width = same;
      to.model.head_size = same / model.heads;
      return {};
    }
    to.model.head_size = kAlignedElements;
    to.model.heads = other;
    if (model.kv_heads == model.heads) to.model.kv_heads = other;
    return fmt::format(" model.n_head={}", other);
  }
  void tensor() {
    if (of_.tensor == 1) return;
    const std::int64_t heads = of_.microbatch.samples * of_.model.heads;
    ProductCase to = of_;
    to.tensor = heads % of_.tensor == 0 ? of_.tensor / 2 : 1;
    for (int ranks = of_.tensor - 1; heads % of_.tensor != 0 && ranks > 1; --ranks) {
      if (heads % ranks != 0) continue;
      to.tensor = ranks;
      break;
    }
    add(fmt::format("parallel.tp={}", to.tensor),
        heads % of_.tensor == 0 ? "fewer ranks a layer, where memory allows: each has larger products"
                                : fmt::format("{} samples x {} heads are not divided evenly by {} ranks", of_.microbatch.samples,
                                              of_.model.heads, of_.tensor),
        rate_gain(to), false);
  }
  void microbatch() {
    ProductCase to = of_;
    to.microbatch.samples *= 2;
    add(fmt::format("model.batch_size={}", to.microbatch.samples), "as large a micro-batch as memory allows: fuller waves",
        rate_gain(to), false);
  }
  /// Adds a change that aligns sizes or fills tiles better; any other is no advice.
  void add(std::string setting, std::string reason, double gain, bool aligns) {
    constexpr double worth = 1.0005;
    if (aligns || gain >= worth) changes_.push_back({std::move(setting), std::move(reason), gain, aligns});
  }

  const ProductCase& of_;
  const Machine& machine_;
  std::vector<ProductChange> changes_;
};

}  // namespace

std::string ModelProduct::misaligned() const {
  std::string names;
  for (const auto& [letter, size] : {std::pair{"m", m}, {"k", k}, {"n", n}}) {
    if (!aligned(size)) names += (names.empty() ? "" : ", ") + std::string(letter);
  }
  return names;
}

std::vector<ModelProduct> forward_products(const ProductCase& of) {
  const arch::ModelConfig& model = of.model;
  const std::int64_t t = of.tensor, s = of.microbatch.positions, rows = of.microbatch.samples * s, layers = model.layers;
  const std::int64_t heads = div_up(of.microbatch.samples * model.heads, t), ffn = div_up(model.ffn_width, t);
  const std::int64_t own_heads = div_up(model.heads, t), own_kv = div_up(model.kv_heads, t);
  return {{"qkv", rows, model.width, (own_heads + 2 * own_kv) * model.head_size, 1, layers},
          {"scores", s, model.head_size, s, heads, layers},
          {"values", s, s, model.head_size, heads, layers},
          {"attention out", rows, own_heads * model.head_size, model.width, 1, layers},
          {"mlp up", rows, model.width, model.gated ? 2 * ffn : ffn, 1, layers},
          {"mlp down", rows, ffn, model.width, 1, layers},
          {"logits", rows, model.width, div_up(model.vocabulary, t), 1, 1}};
}

double products_seconds(const ProductCase& of, const Machine& machine) {
  double sum = 0;
  for (const ModelProduct& product : forward_products(of)) {
    const auto [name, m, k, n, batch, calls] = product;
    sum += static_cast<double>(calls) *
           (product_seconds(m, k, n, machine, bf16_bytes, batch) + product_seconds(m, n, k, machine, bf16_bytes, batch) +
            product_seconds(k, m, n, machine, bf16_bytes, batch));
  }
  return sum;
}

std::vector<ProductChange> product_changes(const ProductCase& of, const Machine& machine) {
  return Advisor(of, machine).changes();
}

}  // namespace lockstep::planner
