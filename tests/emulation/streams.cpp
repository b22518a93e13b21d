#include "streams.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "emulation/emulation.h"
#include "memory.h"
#include "random.h"

namespace lockstep::emulation {
namespace {

std::vector<CUstream_st*>& streams() {
  static std::vector<CUstream_st*> all{null_stream()};
  return all;
}

// FNV-1a over words, then bytes.
std::uint64_t print_of(const std::byte* data, std::size_t bytes) {
  std::uint64_t print = 0xcbf29ce484222325ULL;
  std::size_t i = 0;
  for (std::uint64_t word = 0; i + sizeof word <= bytes; i += sizeof word) {
    std::memcpy(&word, data + i, sizeof word);
    print = (print ^ word) * 0x100000001b3ULL;
  }
  for (; i < bytes; ++i) print = (print ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3ULL;
  return print;
}

bool overlap(const HostSide& a, const HostSide& b) { return a.data < b.data + b.bytes && b.data < a.data + a.bytes; }

// Whether work that is not done yet writes there, or at least reads.
bool waited_for(const HostSide& side, bool writes_alone) {
  for (const CUstream_st* stream : streams()) {
    for (const Work& work : stream->work) {
      for (const HostSide& other : work.host) {
        if (overlap(side, other) && (other.writes || !writes_alone)) return true;
      }
    }
  }
  return false;
}

// What earlier work is still to write or read has no bytes yet that could be known, or may not be poisoned.
HostSide host_side(const void* address, std::size_t bytes, bool writes) {
  HostSide side;
  if (is_device(address) || bytes == 0) return side;
  side = {const_cast<std::byte*>(static_cast<const std::byte*>(address)), bytes, writes};
  side.checked = !waited_for(side, !writes);
  if (!side.checked) return side;
  if (writes) fill_with_poison(side.data, bytes);
  side.print = print_of(side.data, bytes);
  return side;
}

void check(const HostSide& side) {
  if (!side.checked || print_of(side.data, side.bytes) == side.print) return;
  throw Fault(std::string("the host or another stream changed memory that a copy was to ") + (side.writes ? "write" : "read") +
              ", of " + std::to_string(side.bytes) + " bytes: it must wait first (seed " + std::to_string(lot().seed()) + ")");
}

void push(CUstream_st* stream, Work work) {
  work.issued = std::make_shared<char>();
  const char* mark = work.issued.get();
  stream->work.push_back(std::move(work));
  release(mark);
}

bool can_go_on(const CUstream_st& stream) {
  if (stream.work.empty()) return false;
  const Work& next = stream.work.front();
  return next.waits == nullptr || next.waits->done >= next.number;
}

void do_next(CUstream_st& stream) {
  Work next = std::move(stream.work.front());
  stream.work.pop_front();
  const AsFiber as_stream(stream.fiber);
  const Work work = std::move(next);  // which ends as the stream's
  acquire(work.issued.get());
  if (work.waits != nullptr) acquire(work.waits.get());
  try {
    for (const HostSide& side : work.host) check(side);
    if (work.run) work.run();
  } catch (...) {
    release(&stream);
    throw;
  }
  if (work.records != nullptr) {
    work.records->done = std::max(work.records->done, work.number);
    release(work.records.get());
  }
  release(&stream);
}

}  // namespace

std::recursive_mutex& runtime_lock() {
  static std::recursive_mutex lock;
  return lock;
}

CUstream_st* null_stream() {
  static CUstream_st stream;
  return &stream;
}

void add_stream(CUstream_st* stream) { streams().push_back(stream); }
void remove_stream(CUstream_st* stream) {
  wait_for(stream);
  std::erase(streams(), stream);
}
bool is_stream(const CUstream_st* stream) { return std::ranges::find(streams(), stream) != streams().end(); }

void wait_for(CUstream_st* stream) {
  do_work_until([stream] { return stream->work.empty(); });
  acquire(stream);
}

void wait_for_all() {
  do_work_until([] { return std::ranges::all_of(streams(), [](const CUstream_st* stream) { return stream->work.empty(); }); });
  for (const CUstream_st* stream : streams()) acquire(stream);
}

bool breaks_captures() {
  bool any = false;
  for (CUstream_st* stream : streams()) {
    if (stream->captured == nullptr || stream->captured->by != std::this_thread::get_id()) continue;
    stream->captured->broken = any = true;
  }
  return any;
}

void issue(CUstream_st* stream, std::function<void()> run) {
  if (stream->captured != nullptr) {
    stream->captured->work.push_back([run = std::move(run)](CUstream_st* on) { issue(on, run); });
    return;
  }
  Work work;
  work.run = std::move(run);
  push(stream, std::move(work));
}

void issue_copy(CUstream_st* stream, void* to, const void* from, std::size_t bytes) {
  if (stream->captured != nullptr) {
    stream->captured->work.push_back([=](CUstream_st* on) { issue_copy(on, to, from, bytes); });
    return;
  }
  Work work;
  work.run = [=] { std::memcpy(to, from, bytes); };
  work.host[0] = host_side(from, bytes, false);
  work.host[1] = host_side(to, bytes, true);
  push(stream, std::move(work));
}

void issue_record(CUstream_st* stream, const std::shared_ptr<CUevent_st>& event) {
  Work work;
  work.records = event;
  work.number = ++event->recorded;
  push(stream, std::move(work));
}

void issue_wait(CUstream_st* stream, const std::shared_ptr<CUevent_st>& event) {
  Work work;
  work.waits = event;
  work.number = event->recorded;
  push(stream, std::move(work));
}

void do_work_until(const std::function<bool()>& enough) {
  if (enough()) return;
  const DeviceOpen open;
  std::vector<CUstream_st*> ready;
  try {
    while (!enough()) {
      ready.clear();
      for (CUstream_st* stream : streams()) {
        if (can_go_on(*stream)) ready.push_back(stream);
      }
      if (ready.empty()) throw Fault("streams wait for each other");
      do_next(*ready[lot().draw(ready.size())]);
    }
  } catch (...) {
    for (CUstream_st* stream : streams()) {
      acquire(stream);
      stream->work.clear();
    }
    throw;
  }
}

}  // namespace lockstep::emulation
