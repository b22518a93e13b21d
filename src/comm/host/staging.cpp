#include "comm/host/staging.h"

#include <algorithm>
#include <bit>

#include "comm/host/moves.h"
#include "comm/host/rank.h"
#include "device/stream.h"

namespace lockstep::comm::host {
namespace {

constexpr std::size_t least_block = 64, most_small = std::size_t{1} << 20, slab_bytes = std::size_t{1} << 18;

// Others read what this rank gives.
bool others_read(const Operation& operation, int rank) {
  switch (operation.kind) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::send:
      return true;
    case Collective::broadcast:
    case Collective::scatter:
      return operation.root == rank;
    default:
      return false;
  }
}

// The rank reads it itself too, or does so alone.
bool is_read(const Operation& operation, int rank) {
  return operation.kind == Collective::gather || others_read(operation, rank);
}

// Others write what this rank gets.
bool others_write(const Operation& operation, int rank) {
  switch (operation.kind) {
    case Collective::all_reduce:
      return true;
    case Collective::reduce:
    case Collective::gather:
      return operation.root == rank;
    default:
      return false;
  }
}

// The rank writes it itself too, or does so alone.
bool is_written(const Operation& operation, int rank) {
  switch (operation.kind) {
    case Collective::send:
    case Collective::barrier:
      return false;
    case Collective::broadcast:
      return operation.root != rank;
    case Collective::reduce:
    case Collective::gather:
      return operation.root == rank;
    default:
      return true;
  }
}

bool on_device(const Tensor& tensor) { return !tensor.device.is_host(); }

std::size_t class_of(std::size_t bytes) { return static_cast<std::size_t>(std::bit_width(std::max(bytes, least_block) - 1)); }

void copy_bytes(const Rank& context, std::byte* to, const std::byte* from, const Tensor& of) {
  if (!on_device(of)) return copy(context.team, to, from, static_cast<std::int64_t>(of.bytes()));
  context.stream->copy(to, from, of.bytes());
  context.stream->synchronize();
}

}  // namespace

StagingPool::Block StagingPool::take(std::size_t bytes) {
  if (bytes > most_small) {
    const auto fits = std::ranges::find_if(large_, [&](const Memory& memory) { return memory.size() >= bytes; });
    Memory memory;
    if (fits != large_.end()) {
      memory = std::move(*fits);
      large_.erase(fits);
    } else {
      large_.clear();
      memory = shared_.allocate(bytes);
    }
    std::byte* data = memory.data();
    return {data, bytes, std::move(memory)};
  }
  const std::size_t index = class_of(bytes);
  if (small_[index].empty()) cut_slab(index);
  std::byte* data = small_[index].back();
  small_[index].pop_back();
  return {data, bytes};
}

void StagingPool::cut_slab(std::size_t index) {
  const std::size_t block = std::size_t{1} << index;
  const std::size_t bytes = std::max(block, slab_bytes);
  std::byte* slab = slabs_.emplace_back(shared_.allocate(bytes)).data();
  for (std::size_t at = bytes; at > 0; at -= block) small_[index].push_back(slab + at - block);
}

void StagingPool::give_back(Block block) {
  if (block.data == nullptr) return;
  if (block.large.data() != nullptr) {
    large_.push_back(std::move(block.large));
  } else {
    small_[class_of(block.bytes)].push_back(block.data);
  }
}

/// An operation on buffers of the pool.
class Staging::Pending final : public Request::Pending {
 public:
  Pending(Staging& staging, const Rank& context) : staging_(staging), context_(context) {}
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  ~Pending() override {
    request_ = {};  // when it was abandoned
    staging_.pool_.give_back(std::move(given_));
    staging_.pool_.give_back(std::move(got_));
  }

  void begin(Operation operation, int rank, const std::function<Request(const Operation&)>& start) {
    const bool one_buffer = operation.in.data == operation.out.data;
    const bool gets = staging_.copies_out(operation, rank);
    if (staging_.copies_in(operation, rank)) {
      given_ = staging_.pool_.take(operation.in.bytes());
      copy_bytes(context_, given_.data, operation.in.data, operation.in);
      operation.in.data = given_.data;
    }
    if (gets) {
      to_ = operation.out;
      const bool in_place = one_buffer && given_.data != nullptr && operation.in.bytes() >= operation.out.bytes();
      if (!in_place) got_ = staging_.pool_.take(operation.out.bytes());
      operation.out.data = in_place ? given_.data : got_.data;
      from_ = operation.out.data;
    }
    request_ = start(operation);
  }

  void wait() override {
    request_.wait();
    hand_over();
  }
  bool poll(bool patient) override {
    if (!request_.poll(patient)) return false;
    hand_over();
    return true;
  }

 private:
  void hand_over() {
    if (to_) copy_bytes(context_, to_.data, from_, to_);
    to_ = {};
  }

  Staging& staging_;
  const Rank& context_;
  Request request_;
  StagingPool::Block given_, got_;
  Tensor to_;
  const std::byte* from_ = nullptr;
};

bool Staging::copies_in(const Operation& operation, int rank) const {
  const Tensor& in = operation.in;
  if (!in || in.bytes() == 0) return false;
  return on_device(in) ? is_read(operation, rank) : others_read(operation, rank) && memory_.token(in.data) == 0;
}

bool Staging::copies_out(const Operation& operation, int rank) const {
  const Tensor& out = operation.out;
  if (!out || out.bytes() == 0) return false;
  return on_device(out) ? is_written(operation, rank) : others_write(operation, rank) && memory_.token(out.data) == 0;
}

Request Staging::issue(const Operation& operation, int rank, const Rank& context,
                       const std::function<Request(const Operation&)>& start) {
  if (!copies_in(operation, rank) && !copies_out(operation, rank)) return start(operation);
  auto pending = std::make_unique<Pending>(*this, context);
  pending->begin(operation, rank, start);
  return Request(std::move(pending));
}

}  // namespace lockstep::comm::host
