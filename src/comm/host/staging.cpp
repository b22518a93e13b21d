#include "comm/host/staging.h"

#include <algorithm>
#include <bit>

#include "comm/host/moves.h"

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

std::size_t class_of(std::size_t bytes) { return static_cast<std::size_t>(std::bit_width(std::max(bytes, least_block) - 1)); }

void copy_bytes(Team* team, std::byte* to, const std::byte* from, std::size_t bytes) {
  copy(team, to, from, static_cast<std::int64_t>(bytes));
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
  Pending(Staging& staging, Team* team) : staging_(staging), team_(team) {}
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  ~Pending() override {
    request_ = {};  // when it was abandoned
    staging_.pool_.give_back(std::move(given_));
    staging_.pool_.give_back(std::move(got_));
  }

  void begin(Operation operation, int rank, const std::function<Request(const Operation&)>& start) {
    const bool one_buffer = operation.in.data == operation.out.data;
    if (others_read(operation, rank) && staging_.hidden(operation.in)) {
      given_ = staging_.pool_.take(operation.in.bytes());
      copy_bytes(team_, given_.data, operation.in.data, operation.in.bytes());
      operation.in.data = given_.data;
    }
    if (others_write(operation, rank) && staging_.hidden(operation.out)) {
      to_ = operation.out;
      const bool in_place = one_buffer && given_.data != nullptr;
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
    if (to_) copy_bytes(team_, to_.data, from_, to_.bytes());
    to_ = {};
  }

  Staging& staging_;
  Team* team_;
  Request request_;
  StagingPool::Block given_, got_;
  Tensor to_;
  const std::byte* from_ = nullptr;
};

bool Staging::hidden(const Tensor& tensor) const { return tensor && tensor.bytes() > 0 && memory_.token(tensor.data) == 0; }

Request Staging::issue(const Operation& operation, int rank, Team* team, const std::function<Request(const Operation&)>& start) {
  const bool gives = others_read(operation, rank) && hidden(operation.in);
  const bool gets = others_write(operation, rank) && hidden(operation.out);
  if (!gives && !gets) return start(operation);
  auto pending = std::make_unique<Pending>(*this, team);
  pending->begin(operation, rank, start);
  return Request(std::move(pending));
}

}  // namespace lockstep::comm::host
