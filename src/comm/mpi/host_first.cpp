#include "comm/mpi/host_first.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "base/error.h"
#include "comm/host/rank.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t most_under_way = 8;  // fewer than a board has slots

template <class T>
void divide(const Tensor& x, T divisor) {
  T* values = reinterpret_cast<T*>(x.data);
  for (std::int64_t i = 0; i < x.elements(); ++i) values[i] /= divisor;
}

// A bf16 would be rounded between the two additions.
bool goes_host_first(const Operation& operation) {
  return operation.kind == Collective::all_reduce && operation.dtype != DType::bf16 && operation.count > 0;
}

}  // namespace

class HostFirstCommunicator::Pending final : public Request::Pending {
 public:
  Pending(HostFirstCommunicator& group, std::uint64_t number) : group_(group), number_(number) {}
  void wait() override {
    for (int turn = 0; !ended(); ++turn) host::relax(turn, group_.context_.crowded);
  }
  bool poll(bool /*patient*/) override { return ended(); }

 private:
  bool ended() {
    group_.context_.progress();
    return group_.done_ > number_;
  }
  HostFirstCommunicator& group_;
  std::uint64_t number_;
};

HostFirstCommunicator::HostFirstCommunicator(MessageRank& context, std::unique_ptr<MessageCommunicator> all, HostGroups groups,
                                             std::vector<int> hosts)
    : context_(context),
      all_(std::move(all)),
      groups_(std::move(groups)),
      hosts_(std::move(hosts)),
      local_(groups_.before->rank()),
      per_host_(groups_.before->size()) {
  ensure(fits(all_->members(), hosts_) == per_host_, "the tree over the ranks has the hosts as its lower part");
  across_ = all_->split(local_, all_->rank());
  context_.others.push_back({this, [this] { progress(); }});
}

HostFirstCommunicator::~HostFirstCommunicator() {
  std::erase_if(context_.others, [this](const MessageRank::Other& other) { return other.owner == this; });
}

int HostFirstCommunicator::fits(const std::vector<int>& members, const std::vector<int>& hosts) {
  const auto host_of = [&](std::size_t i) { return hosts[static_cast<std::size_t>(members[i])]; };
  std::size_t each = 1;
  while (each < members.size() && host_of(each) == host_of(0)) ++each;
  if (each == 1 || each == members.size() || !std::has_single_bit(each) || members.size() % each != 0) return 0;
  std::vector<int> met;
  for (std::size_t first = 0; first < members.size(); first += each) {
    for (std::size_t i = first; i < first + each; ++i) {
      if (host_of(i) != host_of(first)) return 0;
    }
    if (std::ranges::find(met, host_of(first)) != met.end()) return 0;
    met.push_back(host_of(first));
  }
  return static_cast<int>(each);
}

void HostFirstCommunicator::attach(Stream& stream, Team& team) {
  groups_.before->attach(stream, team);
  all_->attach(stream, team);
}

Request HostFirstCommunicator::issue(const Operation& operation) {
  if (!goes_host_first(operation)) return all_->issue(operation);
  Reduction& reduction = reductions_.emplace_back();
  reduction.operation = operation;
  cut(reduction);
  reduction.announced = all_->announce(operation);
  const std::uint64_t number = issued_++;
  progress();
  return Request(std::make_unique<Pending>(*this, number));
}

// Every rank of a host has a part of its sums.
void HostFirstCommunicator::cut(Reduction& reduction) const {
  const Operation& op = reduction.operation;
  const std::int64_t most = div_up(op.count, static_cast<std::int64_t>(per_host_));
  for (int r = 0; r < per_host_; ++r) {
    const std::int64_t first = std::min(op.count, most * r);
    reduction.counts.push_back(std::min(most, op.count - first));
    if (r == local_) reduction.part = op.in.flat(first, reduction.counts.back());
  }
}

void HostFirstCommunicator::progress() {
  if (progressing_) return;  // a stage that is issued moves everything forward
  progressing_ = true;
  try {
    Phase limit = Phase::ended;
    for (std::size_t i = 0; i < std::min(reductions_.size(), most_under_way); ++i) {
      advance(reductions_[i], limit);
      limit = reductions_[i].phase;
    }
  } catch (...) {
    progressing_ = false;
    throw;
  }
  progressing_ = false;
  while (!reductions_.empty() && reductions_.front().phase == Phase::ended) {
    reductions_.pop_front();
    ++done_;
  }
}

// Reductions pass each phase in their order, so that every group has its operations in one order on all ranks.
void HostFirstCommunicator::advance(Reduction& reduction, Phase limit) {
  while (reduction.phase < limit && step(reduction)) reduction.phase = static_cast<Phase>(static_cast<int>(reduction.phase) + 1);
}

bool HostFirstCommunicator::step(Reduction& reduction) {
  const Operation& op = reduction.operation;
  const bool mean = op.reduction == lockstep::comm::Reduction::mean;
  const bool announced = reduction.announced.poll();
  const auto rule = mean ? lockstep::comm::Reduction::sum : op.reduction;
  switch (reduction.phase) {
    case Phase::waiting:
      reduction.stage = groups_.before->reduce_scatter(reduction.part, op.in, reduction.counts, rule);
      return true;
    case Phase::adding:
      if (!reduction.stage.poll()) return false;
      reduction.stage = across_->all_reduce(reduction.part, rule);
      return true;
    case Phase::exchanging:
      if (!reduction.stage.poll()) return false;
      if (mean && op.dtype == DType::f32) divide(reduction.part, static_cast<float>(size()));
      if (mean && op.dtype == DType::f64) divide(reduction.part, static_cast<double>(size()));
      reduction.stage = groups_.after->all_gather(op.out, reduction.part, reduction.counts);
      return true;
    case Phase::spreading:
      return reduction.stage.poll() && announced;
    case Phase::ended:
      break;
  }
  return false;
}

std::unique_ptr<Communicator> HostFirstCommunicator::make_group(int colour, std::vector<int> members) {
  const auto key = static_cast<int>(std::ranges::find(members, rank()) - members.begin());
  HostGroups groups{groups_.before->split(colour, key), groups_.after->split(colour, key)};
  std::unique_ptr<MessageCommunicator> all = all_->make_message_group(colour, std::move(members));
  if (fits(all->members(), hosts_) == 0) return all;
  return std::make_unique<HostFirstCommunicator>(context_, std::move(all), std::move(groups), hosts_);
}

}  // namespace lockstep::comm
