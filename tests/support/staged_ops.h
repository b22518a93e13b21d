#pragma once

// A device's kernels for host tensors. Each call's tensors are brought to the device and back (support/staging.h). So tests that
// are written for the CPU's kernels run on other kernels as they are.

#include <memory>
#include <utility>

#include "ops/ops.h"
#include "support/staging.h"

namespace lockstep::support {

/// What a staged family is made of: the device's family, and how tensors get there.
template <class Base>
class Staged : public Base {
 protected:
  Staged(Staging& staging, Base& inner) : Base(nullptr), staging_(staging), inner_(inner) {}
  template <class Body>
  void run(std::initializer_list<Tensor*> tensors, const Body& body) {
    staging_.run(tensors, body);
  }
  Base& inner() { return inner_; }

 private:
  Staging& staging_;
  Base& inner_;
};

class StagedLinear final : public Staged<ops::Linear> {
 public:
  StagedLinear(Staging& staging, ops::Linear& inner) : Staged(staging, inner) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, const Tensor& w, const ops::Epilogue& epilogue) override {
    Tensor to = y, from = x, by = w;
    ops::Epilogue e = epilogue;
    run({&to, &from, &by, &e.bias, &e.pre_activation, &e.residual, &e.gate, &e.sums}, [&] { inner().forward(to, from, by, e); });
  }
  void do_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const ops::InputEpilogue& epilogue) override {
    Tensor to = dx, from = dy, by = w;
    ops::InputEpilogue e = epilogue;
    run({&to, &from, &by, &e.pre_activation, &e.activated, &e.gate, &e.d_gate, &e.sums},
        [&] { inner().backward_input(to, from, by, e); });
  }
  void do_backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate,
                          const ops::SumGrid* grid) override {
    Tensor to = dw, bias = db, from = dy, by = x;
    run({&to, &bias, &from, &by}, [&] { inner().backward_weight(to, bias, from, by, accumulate, grid); });
  }
};

class StagedNorm final : public Staged<ops::Norm> {
 public:
  StagedNorm(Staging& staging, ops::Norm& inner) : Staged(staging, inner) {}

 private:
  void do_forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                  const Tensor& residual) override {
    Tensor to = n, kept = stats, from = x, g = gain, b = bias, r = residual;
    run({&to, &kept, &from, &g, &b, &r}, [&] { inner().forward(to, kept, from, g, b, eps, r); });
  }
  void do_apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) override {
    Tensor to = n, kept = stats, from = x, g = gain, b = bias;
    run({&to, &kept, &from, &g, &b}, [&] { inner().apply(to, kept, from, g, b); });
  }
  void do_backward(const ops::NormBackward& call) override {
    ops::NormBackward c = call;
    run({&c.dx, &c.n, &c.d_gain, &c.d_bias, &c.dn, &c.x, &c.stats, &c.gain, &c.bias, &c.residual}, [&] { inner().backward(c); });
  }
};

class StagedSplitNorm final : public Staged<ops::SplitNorm> {
 public:
  StagedSplitNorm(Staging& staging, ops::SplitNorm& inner) : Staged(staging, inner) {}

 private:
  void do_squares(const Tensor& sums, const Tensor& x) override {
    Tensor to = sums, from = x;
    run({&to, &from}, [&] { inner().squares(to, from); });
  }
  void do_forward(const Tensor& n, const Tensor& rstd, const Tensor& x, const Tensor& gain, const Tensor& sums,
                  std::int64_t features, float eps) override {
    Tensor to = n, kept = rstd, from = x, g = gain, s = sums;
    run({&to, &kept, &from, &g, &s}, [&] { inner().forward(to, kept, from, g, s, features, eps); });
  }
  void do_dots(const Tensor& sums, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain) override {
    Tensor to = sums, d = dn, from = x, kept = rstd, g = gain;
    run({&to, &d, &from, &kept, &g}, [&] { inner().dots(to, d, from, kept, g); });
  }
  void do_gain_gradient(const Tensor& d_gain, const Tensor& dn, const Tensor& x, const Tensor& rstd, bool accumulate) override {
    Tensor to = d_gain, d = dn, from = x, kept = rstd;
    run({&to, &d, &from, &kept}, [&] { inner().gain_gradient(to, d, from, kept, accumulate); });
  }
  void do_backward(const Tensor& dx, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain,
                   const Tensor& dots, std::int64_t features) override {
    Tensor to = dx, d = dn, from = x, kept = rstd, g = gain, s = dots;
    run({&to, &d, &from, &kept, &g, &s}, [&] { inner().backward(to, d, from, kept, g, s, features); });
  }
};

class StagedAttention final : public Staged<ops::Attention> {
 public:
  StagedAttention(Staging& staging, ops::Attention& inner) : Staged(staging, inner) {}

 private:
  void do_forward(const ops::AttentionForward& call) override {
    ops::AttentionForward c = call;
    run({&c.o, &c.lse, &c.q, &c.k, &c.v, &c.starts, &c.whole.weights, &c.whole.aside, &c.whole.mask},
        [&] { inner().forward(c); });
  }
  void do_forward(const ops::CachedAttention& call) override {
    ops::CachedAttention c = call;
    run({&c.o, &c.q, &c.k, &c.v, &c.pages, &c.starts}, [&] { inner().forward(c); });
  }
  void do_backward(const ops::AttentionBackward& call) override {
    ops::AttentionBackward c = call;
    run({&c.dq, &c.dk, &c.dv, &c.delta, &c.d_o, &c.o, &c.lse, &c.q, &c.k, &c.v, &c.starts, &c.part_sums, &c.whole.weights,
         &c.whole.aside, &c.whole.mask},
        [&] { inner().backward(c); });
  }
};

class StagedRotary final : public Staged<ops::Rotary> {
 public:
  StagedRotary(Staging& staging, ops::Rotary& inner) : Staged(staging, inner) {}

 private:
  void do_rotate(const Tensor& x, const Tensor& angles, const ops::RotaryPlace& place) override {
    Tensor to = x, by = angles;
    ops::RotaryPlace p = place;
    run({&to, &by, &p.starts}, [&] { inner().rotate(to, by, p); });
  }
};

class StagedActivations final : public Staged<ops::Activations> {
 public:
  StagedActivations(Staging& staging, ops::Activations& inner) : Staged(staging, inner) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, ops::Activation f) override {
    Tensor to = y, from = x;
    run({&to, &from}, [&] { inner().forward(to, from, f); });
  }
  void do_backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, ops::Activation f) override {
    Tensor to = dx, again = y, d = dy, from = x;
    run({&to, &again, &d, &from}, [&] { inner().backward(to, again, d, from, f); });
  }
};

class StagedDropout final : public Staged<ops::Dropout> {
 public:
  StagedDropout(Staging& staging, ops::Dropout& inner) : Staged(staging, inner) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, const ops::DropoutSite& site, const Tensor& residual) override {
    Tensor to = y, from = x, r = residual;
    run({&to, &from, &r}, [&] { inner().forward(to, from, site, r); });
  }
  void do_backward(const Tensor& dx, const Tensor& dy, const ops::DropoutSite& site) override {
    Tensor to = dx, from = dy;
    run({&to, &from}, [&] { inner().backward(to, from, site); });
  }
};

}  // namespace lockstep::support
