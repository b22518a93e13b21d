#include "device/cuda/repeated_work.h"

#include "base/error.h"
#include "device/cuda/check.h"

namespace lockstep::cuda {
namespace {

class Graph final : public KeptWork {
 public:
  Graph() = default;
  ~Graph() override {
    if (made_ != nullptr) cudaGraphExecDestroy(made_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  bool made() const { return made_ != nullptr; }
  /// Takes what `issue` gives the stream. None of it is done.
  void make(cudaStream_t stream, WorkGate& gate, const std::function<void()>& issue);
  void start(cudaStream_t stream) const { check(cudaGraphLaunch(made_, stream), "cudaGraphLaunch"); }
  std::uint64_t print() const { return print_; }

 private:
  cudaGraphExec_t made_ = nullptr;
  std::uint64_t print_ = 0;
};

/// The stream keeps its work from here on. Copies and allocations of other threads go on.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  ~Capture() {
    if (under_way_) cudaStreamEndCapture(stream_, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    under_way_ = false;
    check(cudaStreamEndCapture(stream_, &graph_), "cudaStreamEndCapture");
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool under_way_ = true;
};

void Graph::make(cudaStream_t stream, WorkGate& gate, const std::function<void()>& issue) {
  Capture capture(stream);
  print_ = gate.during(WorkGate::State::kept, issue);
  check(cudaGraphInstantiate(&made_, capture.end(), 0), "cudaGraphInstantiate");
}

}  // namespace

std::uint64_t WorkGate::during(State state, const std::function<void()>& issue) {
  ensure(open(), "work is repeated by one owner at a time");
  print_ = 0xcbf29ce484222325ULL;
  state_ = state;
  try {
    issue();
  } catch (...) {
    state_ = State::open;
    throw;
  }
  state_ = State::open;
  return print_;
}

void repeat(cudaStream_t stream, WorkGate& gate, std::unique_ptr<KeptWork>& kept, const std::function<void()>& issue) {
  if (!kept) {
    kept = std::make_unique<Graph>();
    return issue();
  }
  auto& graph = dynamic_cast<Graph&>(*kept);
  if (!graph.made()) {
    graph.make(stream, gate, issue);
    return graph.start(stream);
  }
  graph.start(stream);
  ensure(gate.during(WorkGate::State::shut, issue) == graph.print(), "repeated work is the same each time");
}

}  // namespace lockstep::cuda
