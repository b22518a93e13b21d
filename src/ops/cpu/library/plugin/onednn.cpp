#include <dlfcn.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "ops/cpu/library/library.h"

namespace lockstep::ops::cpu {

// In onednn_v2.cpp or onednn_v3.cpp, whichever fits the installed version.
dnnl::matmul make_onednn_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes);

namespace {

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transposed, DType type) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  using Type = dnnl::memory::data_type;
  return {{rows, columns}, type == DType::bf16 ? Type::bf16 : Type::f32, strides};
}

class OneDnnMatmul final : public LibraryMatmul {
 public:
  OneDnnMatmul(const dnnl::engine& engine, const dnnl::stream& stream, const LibraryShape& shape)
      : stream_(stream),
        a_(matrix(shape.m, shape.k, shape.a_stride, shape.a_transposed, shape.type), engine, nullptr),
        b_(matrix(shape.k, shape.n, shape.b_stride, shape.b_transposed, shape.type), engine, nullptr),
        c_(matrix(shape.m, shape.n, shape.c_stride, false, shape.c_type), engine, nullptr) {
    dnnl::primitive_attr attributes;
    if (shape.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    matmul_ = make_onednn_matmul(engine, a_.get_desc(), b_.get_desc(), c_.get_desc(), attributes);
    arguments_ = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}};
  }

  void run(const void* a, const void* b, void* c) override {
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    matmul_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::stream stream_;
  dnnl::memory a_, b_, c_;
  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

class OneDnn final : public Library {
 public:
  // oneDNN works on the OpenMP runtime that it is linked to; its number of threads is the calling thread's when a primitive is
  // made.
  explicit OneDnn(int threads) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    if (void* symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) reinterpret_cast<void (*)(int)>(symbol)(threads);
  }

  std::string name() const override {
    const dnnl_version_t* version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }

  std::unique_ptr<LibraryMatmul> prepare(const LibraryShape& shape) override {
    try {
      return std::make_unique<OneDnnMatmul>(engine_, stream_, shape);
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_unimplemented) return nullptr;
      throw;
    }
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
};

class OneDnnPlugin final : public LibraryPlugin {
 public:
  std::unique_ptr<Library> open(int threads) override { return std::make_unique<OneDnn>(threads); }
};

}  // namespace
}  // namespace lockstep::ops::cpu

extern "C" void* LOCKSTEP_PLUGIN_ENTRY() {
  static lockstep::ops::cpu::OneDnnPlugin plugin;
  return static_cast<lockstep::ops::cpu::LibraryPlugin*>(&plugin);
}
