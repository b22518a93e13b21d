#include "parallel/boundary.h"

#include "base/error.h"

namespace lockstep::parallel {
namespace {

class Identity final : public Boundary {
 public:
  bool is_local() const override { return true; }
  comm::Request forward(const Tensor& out, const Tensor& in) override { return same(out, in); }
  comm::Request backward(const Tensor& d_in, const Tensor& d_out) override { return same(d_in, d_out); }

 private:
  static comm::Request same(const Tensor& to, const Tensor& from) {
    ensure(to.data == from.data && to.shape == from.shape, "an identity boundary gets one tensor for both sides");
    return {};
  }
};

}  // namespace

std::unique_ptr<Boundary> make_identity_boundary() { return std::make_unique<Identity>(); }

}  // namespace lockstep::parallel
