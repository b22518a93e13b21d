#include <cstring>

#include "base/error.h"
#include "comm/communicator.h"

namespace lockstep::comm {
namespace {

/// Alone, every collective is at most a copy.
class Self final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void attach(Stream&, cpu::Team&) override {}
  MemorySource& window(MemorySource& usual) override { return usual; }

 private:
  Request issue(const Operation& op) override {
    if (op.in && op.out && op.out.data != op.in.data) std::memmove(op.out.data, op.in.data, op.in.bytes());
    return {};
  }
  std::unique_ptr<Communicator> make_group(int, std::vector<int>) override { return make_self(); }
};

}  // namespace

std::unique_ptr<Communicator> make_self() { return std::make_unique<Self>(); }

}  // namespace lockstep::comm
