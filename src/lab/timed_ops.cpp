#include "lab/timed_ops.h"

#include <algorithm>
#include <utility>

#include "base/timer.h"

namespace lockstep::lab {
namespace {

using namespace ops;

enum class Op : std::size_t {
  linear_forward,
  linear_backward_input,
  linear_backward_weight,
  norm_forward,
  norm_apply,
  norm_backward,
  rotary_rotate,
  attention_forward,
  attention_backward,
  activation_forward,
  activation_backward,
  embedding_forward,
  embedding_backward_tokens,
  embedding_backward_positions,
  embedding_add_rows,
  embedding_take_rows,
  dropout_forward,
  dropout_backward,
  loss_forward,
  elementwise_zero,
  elementwise_fill,
  elementwise_cast,
  elementwise_add,
  elementwise_scale,
  elementwise_normal,
  elementwise_uniform,
  reduce_sum_of_squares,
  reduce_max_abs,
  update_adamw,
  count
};

// In the order of Op.
std::vector<OpTime> all_ops() {
  return {
      {"linear.forward", Part::products},
      {"linear.backward_input", Part::products},
      {"linear.backward_weight", Part::products},
      {"norm.forward", Part::rows},
      {"norm.apply", Part::rows},
      {"norm.backward", Part::rows},
      {"rotary.rotate", Part::rows},
      {"attention.forward", Part::attention},
      {"attention.backward", Part::attention},
      {"activation.forward", Part::rows},
      {"activation.backward", Part::rows},
      {"embedding.forward", Part::rows},
      {"embedding.backward_tokens", Part::rows},
      {"embedding.backward_positions", Part::rows},
      {"embedding.add_rows", Part::rows},
      {"embedding.take_rows", Part::rows},
      {"dropout.forward", Part::rows},
      {"dropout.backward", Part::rows},
      {"loss.forward", Part::loss},
      {"elementwise.zero", Part::rows},
      {"elementwise.fill", Part::rows},
      {"elementwise.cast", Part::rows},
      {"elementwise.add", Part::rows},
      {"elementwise.scale", Part::rows},
      {"elementwise.normal", Part::rows},
      {"elementwise.uniform", Part::rows},
      {"reduce.sum_of_squares", Part::update},
      {"reduce.max_abs", Part::rows},
      {"update.adamw", Part::update},
  };
}

// Where the families put their times.
struct Book {
  std::vector<OpTime> ops = all_ops();
  std::vector<ProductTime> products;

  // Runs `work`, on the account of `op`; returns its seconds.
  template <class Work>
  double time(Op op, Work&& work) {
    OpTime& entry = ops[static_cast<std::size_t>(op)];
    const double start = now_seconds();
    std::forward<Work>(work)();
    const double seconds = now_seconds() - start;
    entry.seconds += seconds;
    ++entry.calls;
    return seconds;
  }

  // A product of a layer: m tokens, n out-features, k in-features.
  template <class Work>
  void time_product(Op op, ProductRole role, std::int64_t m, std::int64_t n, std::int64_t k, Work&& work) {
    const double seconds = time(op, std::forward<Work>(work));
    auto entry =
        std::ranges::find_if(products, [&](const ProductTime& p) { return p.role == role && p.m == m && p.n == n && p.k == k; });
    if (entry == products.end()) entry = products.insert(entry, {role, m, n, k});
    entry->seconds += seconds;
    ++entry->calls;
  }
};

class TimedLinear final : public Linear {
 public:
  TimedLinear(Linear& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue) override {
    book_.time_product(Op::linear_forward, ProductRole::forward, x.rows(), w.rows(), w.columns(),
                       [&] { inner_.forward(y, x, w, epilogue); });
  }
  void do_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue) override {
    book_.time_product(Op::linear_backward_input, ProductRole::input_gradient, dy.rows(), w.rows(), w.columns(),
                       [&] { inner_.backward_input(dx, dy, w, epilogue); });
  }
  void do_backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate) override {
    book_.time_product(Op::linear_backward_weight, ProductRole::weight_gradient, dy.rows(), dw.rows(), dw.columns(),
                       [&] { inner_.backward_weight(dw, db, dy, x, accumulate); });
  }
  Linear& inner_;
  Book& book_;
};

class TimedNorm final : public Norm {
 public:
  TimedNorm(Norm& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias,
                  float eps) override {
    book_.time(Op::norm_forward, [&] { inner_.forward(n, stats, x, gain, bias, eps); });
  }
  void do_apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) override {
    book_.time(Op::norm_apply, [&] { inner_.apply(n, stats, x, gain, bias); });
  }
  void do_backward(const Tensor& dx, const Tensor& n, const Tensor& d_gain, const Tensor& d_bias, const Tensor& dn,
                   const Tensor& x, const Tensor& stats, const Tensor& gain, const Tensor& bias, const Tensor& residual,
                   bool accumulate) override {
    book_.time(Op::norm_backward,
               [&] { inner_.backward(dx, n, d_gain, d_bias, dn, x, stats, gain, bias, residual, accumulate); });
  }
  Norm& inner_;
  Book& book_;
};

class TimedRotary final : public Rotary {
 public:
  TimedRotary(Rotary& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place) override {
    book_.time(Op::rotary_rotate, [&] { inner_.rotate(x, angles, place); });
  }
  Rotary& inner_;
  Book& book_;
};

class TimedAttention final : public Attention {
 public:
  TimedAttention(Attention& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_forward(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                  const AttentionShape& shape, const DropoutSite& dropout) override {
    book_.time(Op::attention_forward, [&] { inner_.forward(o, lse, q, k, v, shape, dropout); });
  }
  void do_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& delta, const Tensor& d_o, const Tensor& o,
                   const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape,
                   const DropoutSite& dropout) override {
    book_.time(Op::attention_backward, [&] { inner_.backward(dq, dk, dv, delta, d_o, o, lse, q, k, v, shape, dropout); });
  }
  Attention& inner_;
  Book& book_;
};

class TimedActivations final : public Activations {
 public:
  TimedActivations(Activations& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, Activation f) override {
    book_.time(Op::activation_forward, [&] { inner_.forward(y, x, f); });
  }
  void do_backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f) override {
    book_.time(Op::activation_backward, [&] { inner_.backward(dx, y, dy, x, f); });
  }
  Activations& inner_;
  Book& book_;
};

class TimedEmbedding final : public Embedding {
 public:
  TimedEmbedding(Embedding& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                  std::int64_t positions, std::int64_t first_position) override {
    book_.time(Op::embedding_forward, [&] { inner_.forward(y, tokens, token_table, position_table, positions, first_position); });
  }
  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens) override {
    book_.time(Op::embedding_backward_tokens, [&] { inner_.backward_tokens(d_tokens, dy, tokens); });
  }
  void do_backward_positions(const Tensor& d_positions, const Tensor& dy, std::int64_t positions, bool accumulate) override {
    book_.time(Op::embedding_backward_positions, [&] { inner_.backward_positions(d_positions, dy, positions, accumulate); });
  }
  void do_add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) override {
    book_.time(Op::embedding_add_rows, [&] { inner_.add_rows(sum, part, tokens); });
  }
  void do_take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) override {
    book_.time(Op::embedding_take_rows, [&] { inner_.take_rows(rows, part, tokens); });
  }
  Embedding& inner_;
  Book& book_;
};

class TimedDropout final : public Dropout {
 public:
  TimedDropout(Dropout& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, const DropoutSite& site, const Tensor& residual) override {
    book_.time(Op::dropout_forward, [&] { inner_.forward(y, x, site, residual); });
  }
  void do_backward(const Tensor& dx, const Tensor& dy, const DropoutSite& site) override {
    book_.time(Op::dropout_backward, [&] { inner_.backward(dx, dy, site); });
  }
  Dropout& inner_;
  Book& book_;
};

class TimedLoss final : public Loss {
 public:
  TimedLoss(Loss& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                  double& loss_sum) override {
    book_.time(Op::loss_forward, [&] { inner_.forward(logits, targets, vocabulary, scale, loss_sum); });
  }
  Loss& inner_;
  Book& book_;
};

class TimedElementwise final : public Elementwise {
 public:
  TimedElementwise(Elementwise& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_zero(const Tensor& x) override {
    book_.time(Op::elementwise_zero, [&] { inner_.zero(x); });
  }
  void do_fill(const Tensor& x, float value) override {
    book_.time(Op::elementwise_fill, [&] { inner_.fill(x, value); });
  }
  void do_cast(const Tensor& y, const Tensor& x) override {
    book_.time(Op::elementwise_cast, [&] { inner_.cast(y, x); });
  }
  void do_add(const Tensor& y, const Tensor& x) override {
    book_.time(Op::elementwise_add, [&] { inner_.add(y, x); });
  }
  void do_scale(const Tensor& x, float factor) override {
    book_.time(Op::elementwise_scale, [&] { inner_.scale(x, factor); });
  }
  void do_normal(const Tensor& x, const CounterRng& rng, std::int64_t first, float mean, float std) override {
    book_.time(Op::elementwise_normal, [&] { inner_.normal(x, rng, first, mean, std); });
  }
  void do_uniform(const Tensor& x, const CounterRng& rng, std::int64_t first, float low, float high) override {
    book_.time(Op::elementwise_uniform, [&] { inner_.uniform(x, rng, first, low, high); });
  }
  Elementwise& inner_;
  Book& book_;
};

class TimedReduce final : public Reduce {
 public:
  TimedReduce(Reduce& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  double do_sum_of_squares(const Tensor& x) override {
    double result = 0;
    book_.time(Op::reduce_sum_of_squares, [&] { result = inner_.sum_of_squares(x); });
    return result;
  }
  double do_max_abs(const Tensor& x) override {
    double result = 0;
    book_.time(Op::reduce_max_abs, [&] { result = inner_.max_abs(x); });
    return result;
  }
  Reduce& inner_;
  Book& book_;
};

class TimedUpdate final : public Update {
 public:
  TimedUpdate(Update& inner, Book& book) : inner_(inner), book_(book) {}

 private:
  void do_adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
                const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars) override {
    book_.time(Op::update_adamw, [&] { inner_.adamw(weights, publish, gradient, exp_avg, exp_avg_sq, rule, scalars); });
  }
  Update& inner_;
  Book& book_;
};

}  // namespace

std::string_view name_of(Part part) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(Part::count)> names = {
      "products", "attention", "norms and elementwise", "loss", "clip and AdamW", "data", "rest"};
  return names[static_cast<std::size_t>(part)];
}

struct TimedOps::Families {
  explicit Families(Ops& inner)
      : linear(inner.linear(), book),
        norm(inner.norm(), book),
        rms_norm(inner.rms_norm(), book),
        rotary(inner.rotary(), book),
        attention(inner.attention(), book),
        activation(inner.activation(), book),
        embedding(inner.embedding(), book),
        dropout(inner.dropout(), book),
        loss(inner.loss(), book),
        elementwise(inner.elementwise(), book),
        reduce(inner.reduce(), book),
        update(inner.update(), book) {}
  Book book;
  TimedLinear linear;
  TimedNorm norm, rms_norm;
  TimedRotary rotary;
  TimedAttention attention;
  TimedActivations activation;
  TimedEmbedding embedding;
  TimedDropout dropout;
  TimedLoss loss;
  TimedElementwise elementwise;
  TimedReduce reduce;
  TimedUpdate update;
};

TimedOps::TimedOps(ops::Ops& inner) : inner_(inner), families_(std::make_unique<Families>(inner)) {}
TimedOps::~TimedOps() = default;

ops::Linear& TimedOps::linear() { return families_->linear; }
ops::Norm& TimedOps::norm() { return families_->norm; }
ops::Norm& TimedOps::rms_norm() { return families_->rms_norm; }
ops::Rotary& TimedOps::rotary() { return families_->rotary; }
ops::Attention& TimedOps::attention() { return families_->attention; }
ops::Activations& TimedOps::activation() { return families_->activation; }
ops::Embedding& TimedOps::embedding() { return families_->embedding; }
ops::Dropout& TimedOps::dropout() { return families_->dropout; }
ops::Loss& TimedOps::loss() { return families_->loss; }
ops::Elementwise& TimedOps::elementwise() { return families_->elementwise; }
ops::Reduce& TimedOps::reduce() { return families_->reduce; }
ops::Update& TimedOps::update() { return families_->update; }
std::int64_t TimedOps::workspace_bytes() const { return inner_.workspace_bytes(); }

const std::vector<OpTime>& TimedOps::times() const { return families_->book.ops; }
const std::vector<ProductTime>& TimedOps::products() const { return families_->book.products; }

double TimedOps::seconds(Part part) const {
  double sum = 0;
  for (const OpTime& op : times()) {
    if (op.part == part) sum += op.seconds;
  }
  return sum;
}

void TimedOps::reset() {
  families_->book.ops = all_ops();
  families_->book.products.clear();
}

}  // namespace lockstep::lab
