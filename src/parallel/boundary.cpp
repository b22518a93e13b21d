#include "parallel/boundary.h"

#include "base/error.h"
#include "parallel/tensor/splitting_boundary.h"
#include "parallel/tensor/summing_boundary.h"

namespace lockstep::parallel {
namespace {

class Local final : public Boundary {
 public:
  BoundaryKind kind() const override { return BoundaryKind::local; }
  TokenBlock outside(const TokenGrid& tokens) const override { return {{0, tokens.samples}, {0, tokens.positions}}; }
  comm::Request gather(const Tensor& /*inside*/, const Tensor& /*outside*/, const TokenGrid& /*tokens*/) override {
    throw BrokenRule("a local boundary carries no rows");
  }
  comm::Request reduce(const Tensor& /*outside*/, const Tensor& /*inside*/, const TokenGrid& /*tokens*/) override {
    throw BrokenRule("a local boundary carries no sums");
  }
  comm::Request collect(const Tensor& /*all*/, const Tensor& /*own*/) override {
    throw BrokenRule("a local boundary has one part of the features");
  }
  comm::Request add_up(const Tensor& /*x*/) override { throw BrokenRule("a local boundary has all rows outside"); }
};

}  // namespace

std::unique_ptr<Boundary> make_local_boundary() { return std::make_unique<Local>(); }

std::unique_ptr<Boundary> make_boundary(const Groups& groups) {
  if (groups.plan().sequence) return std::make_unique<SplittingBoundary>(groups.tensor());
  return make_reading_boundary(groups);
}

std::unique_ptr<Boundary> make_reading_boundary(const Groups& groups) {
  if (groups.plan().tp == 1) return make_local_boundary();
  return std::make_unique<SummingBoundary>(groups.tensor());
}

}  // namespace lockstep::parallel
