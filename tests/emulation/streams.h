#pragma once

// Streams as lists of work. Work is done when somebody waits for it, as late as can be; which of the streams goes on is drawn by
// lot.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fiber.h"

/// As NVIDIA says of events: a wait is for the record that came last before it.
struct CUevent_st {
  std::uint64_t recorded = 0, done = 0;
};

struct CUstream_st;

namespace lockstep::emulation {

/// Host memory that a copy reads or writes, from its issue until it is done.
struct HostSide {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
  bool checked = false;     ///< its bytes at the time of issue are known: the host must leave them alone
  std::uint64_t print = 0;  ///< a hash of those bytes
};

struct Work {
  std::function<void()> run;
  std::shared_ptr<CUevent_st> waits, records;
  std::uint64_t number = 0;  ///< number of the record that is waited for or made
  HostSide host[2] = {};
  std::shared_ptr<char> issued;  ///< ThreadSanitizer's mark
};

}  // namespace lockstep::emulation

/// Issues one piece of work, on a stream of the caller's choice.
using KeptIssue = std::function<void(CUstream_st*)>;

/// What a stream was given while it was captured.
struct CUgraph_st {
  std::vector<KeptIssue> work;
  std::thread::id by = std::this_thread::get_id();
  bool broken = false;  ///< there was a call that a graph cannot have
};

struct CUstream_st {
  std::deque<lockstep::emulation::Work> work;
  std::unique_ptr<CUgraph_st> captured;  ///< while the stream is captured
  /// ThreadSanitizer sees each stream's work as that of another thread: orders come from waits alone.
  lockstep::emulation::Fiber fiber = lockstep::emulation::Fiber::without_stack();
};

namespace lockstep::emulation {

/// Every call of the runtime holds this lock: ranks may be threads of one program.
std::recursive_mutex& runtime_lock();

void add_stream(CUstream_st* stream);
/// Does the stream's work, then removes it.
void remove_stream(CUstream_st* stream);
bool is_stream(const CUstream_st* stream);
/// The stream without a name, which waits for no other: the rest are made with cudaStreamNonBlocking.
CUstream_st* null_stream();

/// For calls that a thread may not make while it captures a stream: whether it does. The capture is then broken.
bool breaks_captures();
/// Where the stream is captured, `run` is kept and will be issued with each launch of the graph.
void issue(CUstream_st* stream, std::function<void()> run);
/// Issues a copy. Until it is done, the host must not change host memory that the copy reads or writes. A destination in host
/// memory is poisoned until then. A captured stream keeps it.
void issue_copy(CUstream_st* stream, void* to, const void* from, std::size_t bytes);
void issue_record(CUstream_st* stream, const std::shared_ptr<CUevent_st>& event);
void issue_wait(CUstream_st* stream, const std::shared_ptr<CUevent_st>& event);
/// The host waits for the stream.
void wait_for(CUstream_st* stream);
void wait_for_all();
/// Does work until `enough` is true. Throws Fault where work breaks a rule; the rest of the work is then forgotten.
void do_work_until(const std::function<bool()>& enough);

}  // namespace lockstep::emulation
