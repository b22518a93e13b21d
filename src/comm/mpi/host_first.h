#pragma once

// Ranks of several hosts, where every host has the same power of two of them, and one host's lie behind another's. Then the tree
// of a sum over ranks has the sums of the hosts as its lower part (numerics.md section 3.4). An all_reduce adds in the memory of
// each host. Then each rank exchanges its part of those sums between hosts, and the results are spread in memory. The bits are
// those of all other transports, but the network carries one buffer a host instead of one a rank. All other operations, and an
// all_reduce of bf16, go in messages between ranks.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/message_communicator.h"

namespace lockstep::comm {

/// The ranks of this host in two groups, so that each carries its operations in one order.
struct HostGroups {
  std::unique_ptr<Communicator> before, after;  ///< the exchange between hosts
};

class HostFirstCommunicator final : public Communicator {
 public:
  /// `all`: the group of every member. `hosts`: the host of each rank of the world. The members of `all` fit: see fits().
  HostFirstCommunicator(MessageRank& context, std::unique_ptr<MessageCommunicator> all, HostGroups groups,
                        std::vector<int> hosts);
  ~HostFirstCommunicator() override;
  HostFirstCommunicator(const HostFirstCommunicator&) = delete;
  HostFirstCommunicator& operator=(const HostFirstCommunicator&) = delete;

  /// How many of the members are on each host. It is 0 unless several hosts have the same power of two above 1 of them each, one
  /// host's behind another's. Members are ranks of the world, in the group's order.
  static int fits(const std::vector<int>& members, const std::vector<int>& hosts);

  int rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }
  void attach(Stream& stream, Team& team) override;
  MemorySource& window(MemorySource& usual) override { return groups_.before->window(usual); }

 private:
  class Pending;
  enum class Phase : std::uint8_t { waiting, adding, exchanging, spreading, ended };
  // An all_reduce on its way.
  struct Reduction {
    Operation operation;
    std::vector<std::int64_t> counts;  // by rank of the host
    Tensor part;                       // this rank's part of the sums
    Phase phase = Phase::waiting;
    Request announced, stage;
  };

  Request issue(const Operation& operation) override;
  std::unique_ptr<Communicator> make_group(int colour, std::vector<int> members) override;
  void progress();
  void advance(Reduction& reduction, Phase limit);
  bool step(Reduction& reduction);
  void cut(Reduction& reduction) const;

  MessageRank& context_;
  std::unique_ptr<MessageCommunicator> all_;
  HostGroups groups_;
  std::unique_ptr<Communicator> across_;  // the ranks of the other hosts with this one's place
  std::vector<int> hosts_;
  int local_;  // this rank among those of its host
  int per_host_;
  std::deque<Reduction> reductions_;
  std::uint64_t issued_ = 0, done_ = 0;
  bool progressing_ = false;
};

}  // namespace lockstep::comm
