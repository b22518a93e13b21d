#include "comm/mpi/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"
#include "io/free_memory.h"

namespace lockstep::comm {
namespace {

[[noreturn]] void refuse(std::size_t bytes, const std::string& why) {
  throw SystemError(fmt::format("no shared memory: {} bytes for the ranks of this host could not be had ({})", bytes, why));
}

std::byte* map(int descriptor, std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace

Segment Segment::make(std::size_t bytes) {
  // No limit of a file system stops this memory from growing until the machine has none left: that has to be asked first.
  if (const auto free = io::free_memory(); free && bytes > static_cast<std::size_t>(free->bytes)) {
    refuse(bytes, fmt::format("the machine has {} left", free->bytes));
  }
  Segment segment;
  segment.descriptor_ = memfd_create("lockstep", MFD_CLOEXEC);
  if (segment.descriptor_ < 0) refuse(bytes, std::strerror(errno));
  // Reserved now: a page that is missing later would end the process without a word.
  if (fallocate(segment.descriptor_, 0, 0, static_cast<off_t>(bytes)) != 0) refuse(bytes, std::strerror(errno));
  segment.data_ = map(segment.descriptor_, bytes);
  if (segment.data_ == nullptr) refuse(bytes, std::strerror(errno));
  segment.bytes_ = bytes;
  return segment;
}

Segment Segment::open(int pid, int descriptor, std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  Segment segment;
  if (opened >= 0) {
    segment.data_ = map(opened, bytes);
    segment.bytes_ = bytes;
  }
  const int error = errno;
  if (opened >= 0) close(opened);
  if (segment.data_ == nullptr) {
    throw SystemError(
        fmt::format("the memory of another rank of this host, {}, cannot be mapped: {}", path, std::strerror(error)));
  }
  return segment;
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

Segment::Segment(Segment&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Segment::empty() noexcept {
  if (data_ != nullptr) madvise(data_, bytes_, MADV_REMOVE);
}

bool is_alive(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return false;
  const std::size_t name_end = line.rfind(')');  // the name may hold anything
  const char state = name_end == std::string::npos || name_end + 2 >= line.size() ? '?' : line[name_end + 2];
  return state != 'Z' && state != 'X';
}

}  // namespace lockstep::comm
