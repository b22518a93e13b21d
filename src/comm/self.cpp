#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "comm/communicator.h"

namespace lockstep::comm {
namespace {

void copy(const Tensor& to, const Tensor& from) {
  ensure(to.dtype == from.dtype && to.elements() == from.elements(), "both sides of a transfer have one type and size");
  if (to.data != from.data) std::memmove(to.data, from.data, from.bytes());
}

/// Alone, every collective is at most a copy.
class Self final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Request all_reduce(const Tensor&, Reduction) override { return {}; }
  Request reduce(const Tensor&, Reduction, int root) override { return only_root(root); }
  Request broadcast(const Tensor&, int root) override { return only_root(root); }
  Request all_gather(const Tensor& out, const Tensor& part, std::span<const std::int64_t> counts) override {
    ensure(counts.size() == 1 && counts[0] == part.elements(), "one count a rank");
    copy(out, part);
    return {};
  }
  Request reduce_scatter(const Tensor& part, const Tensor& in, std::span<const std::int64_t> counts, Reduction) override {
    ensure(counts.size() == 1 && counts[0] == part.elements(), "one count a rank");
    copy(part, in);
    return {};
  }
  Request gather(const Tensor& out, const Tensor& part, int root) override {
    copy(out, part);
    return only_root(root);
  }
  Request scatter(const Tensor& part, const Tensor& in, int root) override {
    copy(part, in);
    return only_root(root);
  }
  Request all_to_all(const Tensor& out, const Tensor& in) override {
    copy(out, in);
    return {};
  }
  Request send(const Tensor&, int) override { throw BrokenRule("a rank does not send to itself"); }
  Request receive(const Tensor&, int) override { throw BrokenRule("a rank does not receive from itself"); }
  void barrier() override {}
  std::unique_ptr<Communicator> split(int, int) override { return make_self(); }

 private:
  static Request only_root(int root) {
    ensure(root == 0, "the root is a rank of the group");
    return {};
  }
};

}  // namespace

std::unique_ptr<Communicator> make_self() { return std::make_unique<Self>(); }

}  // namespace lockstep::comm
