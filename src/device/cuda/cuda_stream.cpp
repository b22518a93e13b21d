#include "device/cuda/cuda_stream.h"

#include "base/error.h"
#include "device/cuda/check.h"

namespace lockstep::cuda {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(int gpu) : gpu_(gpu) {
    use();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~CudaStream() override {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  std::unique_ptr<Event> make_event() override {
    use();
    return std::make_unique<CudaEvent>();
  }
  void record(Event& event) override {
    demand_open();
    check(cudaEventRecord(dynamic_cast<CudaEvent&>(event).native(), stream_), "cudaEventRecord");
  }
  void wait(const Event& event) override {
    demand_open();
    check(cudaStreamWaitEvent(stream_, dynamic_cast<const CudaEvent&>(event).native(), 0), "cudaStreamWaitEvent");
  }
  void synchronize() override {
    demand_open();
    progress();
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (to == from || bytes == 0 || !gate_.lets(to, bytes)) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }

  cudaStream_t native() const {
    use();
    return stream_;
  }
  WorkGate& gate() { return gate_; }

 private:
  void demand_open() const { ensure(gate_.open(), "nothing is waited for in repeated work"); }
  void use() const { check(cudaSetDevice(gpu_), "cudaSetDevice"); }

  int gpu_;
  cudaStream_t stream_ = nullptr;
  WorkGate gate_;
};

}  // namespace

std::unique_ptr<Stream> make_cuda_stream(int gpu) { return std::make_unique<CudaStream>(gpu); }

cudaStream_t native(Stream& stream) { return dynamic_cast<CudaStream&>(stream).native(); }

WorkGate& gate_of(Stream& stream) { return dynamic_cast<CudaStream&>(stream).gate(); }

}  // namespace lockstep::cuda
