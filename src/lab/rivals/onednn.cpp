#include "lab/rivals/rival.h"
#include "ops/cpu/library/library.h"

namespace lockstep::lab {
namespace {

class OneDnn final : public Rival {
 public:
  explicit OneDnn(int threads) : library_(ops::cpu::open_library(threads)) {}

  std::string name() const override { return library_->name(); }

  std::function<void()> prepare(const ProductShape& shape, void* a, void* b, void* c) override {
    const std::shared_ptr<ops::cpu::LibraryMatmul> product =
        library_->prepare({.m = shape.m,
                           .n = shape.n,
                           .k = shape.k,
                           .a_stride = shape.a_transposed ? shape.m : shape.k,
                           .b_stride = shape.b_transposed ? shape.k : shape.n,
                           .c_stride = shape.n,
                           .a_transposed = shape.a_transposed,
                           .b_transposed = shape.b_transposed,
                           .accumulate = shape.accumulate,
                           .type = shape.type,
                           .c_type = shape.accumulate ? DType::f32 : shape.type});
    if (!product) return {};
    return [product, a, b, c] { product->run(a, b, c); };
  }

 private:
  std::unique_ptr<ops::cpu::Library> library_;
};

}  // namespace

std::unique_ptr<Rival> open_onednn(int threads) { return ops::cpu::has_library() ? std::make_unique<OneDnn>(threads) : nullptr; }

}  // namespace lockstep::lab
