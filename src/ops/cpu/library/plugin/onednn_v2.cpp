#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::ops::cpu {

dnnl::matmul make_onednn_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes) {
  return dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, engine));
}

}  // namespace lockstep::ops::cpu
