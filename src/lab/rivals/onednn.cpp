#include <dlfcn.h>
#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "lab/rivals/rival.h"

namespace lockstep::lab {

// In onednn_v2.cpp or onednn_v3.cpp, whichever fits the installed version.
dnnl::matmul make_onednn_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes);

namespace {

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
  return {{rows, columns}, dnnl::memory::data_type::f32, strides};
}

class OneDnn final : public Rival {
 public:
  // oneDNN works on the OpenMP runtime that it is linked to; its number of threads is read when a primitive is made.
  explicit OneDnn(int threads) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    if (void* symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) reinterpret_cast<void (*)(int)>(symbol)(threads);
  }

  std::string name() const override {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  }

  std::function<void()> prepare(const ProductShape& shape, float* a, float* b, float* c) override {
    const auto a_desc = matrix(shape.m, shape.k, shape.a_transposed), b_desc = matrix(shape.k, shape.n, shape.b_transposed);
    const auto c_desc = matrix(shape.m, shape.n, false);
    dnnl::primitive_attr attributes;
    if (shape.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, {a_desc, engine_, a}}, {DNNL_ARG_WEIGHTS, {b_desc, engine_, b}}, {DNNL_ARG_DST, {c_desc, engine_, c}}};
    return [this, arguments, matmul = make_onednn_matmul(engine_, a_desc, b_desc, c_desc, attributes)] {
      matmul.execute(stream_, arguments);
      stream_.wait();
    };
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
};

}  // namespace

std::unique_ptr<Rival> open_onednn(int threads) { return std::make_unique<OneDnn>(threads); }

}  // namespace lockstep::lab
