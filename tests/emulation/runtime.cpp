// The functions of CUDA's runtime.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "emulation/emulation.h"
#include "emulation/machine.h"
#include "grid.h"
#include "memory.h"
#include "random.h"
#include "streams.h"
#include "tally.h"

struct CUgraphExec_st {
  std::vector<KeptIssue> work;
};

namespace lockstep::emulation {
namespace {

constexpr std::size_t ordinary_shared = std::size_t{48} << 10, most_shared = std::size_t{227} << 10;

using Lock = std::lock_guard<std::recursive_mutex>;

std::map<const void*, int>& shared_allowed() {
  static std::map<const void*, int> all;
  return all;
}

// The events, by their handles: work that waits for one keeps it when it is destroyed.
std::map<cudaEvent_t, std::shared_ptr<CUevent_st>>& events() {
  static std::map<cudaEvent_t, std::shared_ptr<CUevent_st>> all;
  return all;
}

cudaStream_t found(cudaStream_t stream) { return stream == nullptr ? null_stream() : is_stream(stream) ? stream : nullptr; }

// A wait breaks a capture. Events could be kept in graphs, but nothing needs that.
bool is_captured(CUstream_st& stream) {
  if (stream.captured == nullptr) return false;
  stream.captured->broken = true;
  return true;
}

// Copies of memory that the host may move are no work for a graph.
bool kept_by_graphs(const void* address) { return is_device(address) || is_pinned(address); }

bool fits(dim3 grid, dim3 block) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return threads >= 1 && threads <= 1024 && block.z <= 64 && grid.x >= 1 && grid.x <= 0x7fffffffU && grid.y >= 1 &&
         grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535;
}

}  // namespace

void set_seed(std::uint64_t seed) {
  const Lock lock(runtime_lock());
  lot().set_seed(seed);
}
std::uint64_t seed() { return lot().seed(); }
Counts counts() { return tally(); }
MachineSays& machine() {
  static MachineSays one;
  return one;
}

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute /*attribute*/, int value) {
  const Lock lock(runtime_lock());
  if (value < 0 || static_cast<std::size_t>(value) > most_shared) return cudaErrorInvalidValue;
  shared_allowed()[kernel] = value;
  return cudaSuccess;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::span<const void* const> pointers,
                   std::function<void()> thread) {
  const Lock lock(runtime_lock());
  const cudaStream_t stream = found(config.stream);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (!fits(config.gridDim, config.blockDim)) return cudaErrorInvalidConfiguration;
  const auto allowed = shared_allowed().find(kernel);
  const std::size_t most = allowed == shared_allowed().end() ? ordinary_shared : static_cast<std::size_t>(allowed->second);
  if (config.dynamicSmemBytes > std::max(most, ordinary_shared)) return cudaErrorInvalidValue;
  for (const void* pointer : pointers) {
    if (pointer != nullptr && !is_device(pointer) && !is_pinned(pointer)) return cudaErrorInvalidValue;
  }
  issue(stream, [launch = Launch{kernel, config.gridDim, config.blockDim, config.dynamicSmemBytes, std::move(thread)}] {
    run_grid(launch);
  });
  return cudaSuccess;
}

}  // namespace lockstep::emulation

using namespace lockstep::emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().error == cudaSuccess ? 1 : 0;
  return machine().error;
}
cudaError_t cudaSetDevice(int device) {
  return machine().error != cudaSuccess ? machine().error : device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  std::snprintf(properties->name, sizeof properties->name, "an emulated GPU");
  properties->totalGlobalMem = machine().memory;
  properties->major = machine().capability / 10;
  properties->minor = machine().capability % 10;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(runtime_lock());
  *total = machine().memory;
  *free = machine().memory - device_bytes();
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorSystemDriverMismatch:
      return "cudaErrorSystemDriverMismatch";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const Lock lock(runtime_lock());
  *data = nullptr;
  if (breaks_captures()) return cudaErrorStreamCaptureUnsupported;
  if (bytes == 0) return cudaSuccess;
  if (bytes > machine().memory - device_bytes()) return cudaErrorMemoryAllocation;
  *data = allocate_device(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
// Waits for all work, as NVIDIA's does.
cudaError_t cudaFree(void* data) {
  const Lock lock(runtime_lock());
  if (data == nullptr) return cudaSuccess;
  if (breaks_captures()) return cudaErrorStreamCaptureUnsupported;
  wait_for_all();
  return free_device(data) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  const Lock lock(runtime_lock());
  *data = bytes == 0 || bytes > machine().memory ? nullptr : allocate_pinned(bytes);
  return *data == nullptr && bytes != 0 ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  const Lock lock(runtime_lock());
  if (data == nullptr) return cudaSuccess;
  wait_for_all();
  return free_pinned(data) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  const Lock lock(runtime_lock());
  if ((stream = found(stream)) == nullptr) return cudaErrorInvalidResourceHandle;
  if (!device_has(to, bytes) || !device_has(from, bytes)) return cudaErrorInvalidValue;
  if (stream->captured != nullptr && !(kept_by_graphs(to) && kept_by_graphs(from))) {
    stream->captured->broken = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  issue_copy(stream, to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(runtime_lock());
  if ((stream = found(stream)) == nullptr) return cudaErrorInvalidResourceHandle;
  if (!is_device(to) || !device_has(to, bytes)) return cudaErrorInvalidValue;
  issue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

// A stream that would wait for the one without a name is another order than Lockstep means.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Lock lock(runtime_lock());
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = new CUstream_st;
  add_stream(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(runtime_lock());
  if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
  remove_stream(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(runtime_lock());
  if ((stream = found(stream)) == nullptr) return cudaErrorInvalidResourceHandle;
  if (is_captured(*stream)) return cudaErrorStreamCaptureUnsupported;
  wait_for(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Lock lock(runtime_lock());
  if ((stream = found(stream)) == nullptr || !events().contains(event)) return cudaErrorInvalidResourceHandle;
  if (is_captured(*stream)) return cudaErrorStreamCaptureUnsupported;
  issue_wait(stream, events().at(event));
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Lock lock(runtime_lock());
  if (!is_stream(stream) || stream->captured != nullptr || mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;
  stream->captured = std::make_unique<CUgraph_st>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(runtime_lock());
  *graph = nullptr;
  if (!is_stream(stream) || stream->captured == nullptr) return cudaErrorInvalidValue;
  const std::unique_ptr<CUgraph_st> captured = std::move(stream->captured);
  if (captured->broken) return cudaErrorStreamCaptureInvalidated;
  *graph = new CUgraph_st(*captured);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
  const Lock lock(runtime_lock());
  if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
  *made = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream) {
  const Lock lock(runtime_lock());
  if ((stream = found(stream)) == nullptr || made == nullptr) return cudaErrorInvalidResourceHandle;
  if (is_captured(*stream)) return cudaErrorStreamCaptureUnsupported;
  ++tally().graphs;
  for (const KeptIssue& issue : made->work) issue(stream);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock(runtime_lock());
  delete graph;
  return cudaSuccess;
}
// A graph that is under way comes to its end.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) {
  const Lock lock(runtime_lock());
  delete made;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  const Lock lock(runtime_lock());
  auto made = std::make_shared<CUevent_st>();
  *event = made.get();
  events()[*event] = std::move(made);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(runtime_lock());
  return events().erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(runtime_lock());
  if ((stream = found(stream)) == nullptr || !events().contains(event)) return cudaErrorInvalidResourceHandle;
  if (is_captured(*stream)) return cudaErrorStreamCaptureUnsupported;
  issue_record(stream, events().at(event));
  return cudaSuccess;
}
