#pragma once

// Ranks of several hosts send what they give to the others in messages, with the bits of ranks that share memory. Several
// operations of a group are under way at a time, and large all_reduces go in pieces. So the network has something to carry while
// one of them waits for its turn.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/host/board.h"
#include "comm/mpi/message_operation.h"

namespace lockstep::comm {

class MessageCommunicator;

/// What the groups of one rank share. Used by the rank's thread alone.
struct MessageRank {
  double timeout = 600;              ///< seconds until an operation that others do not enter ends the run
  bool crowded = false;              ///< more ranks than cores
  int number = 0;                    ///< in the world
  const host::Roll* roll = nullptr;  ///< where the ranks of this host see whom it waits for; null: nowhere
  int next_group = 1;
  std::vector<MessageCommunicator*> groups = {};
  struct Other {
    const void* owner;
    std::function<void()> progress;
  };
  std::vector<Other> others = {};  ///< what is built of message groups and goes forward with them

  double last_progress = 0;  ///< between ops, now_seconds()

  void progress();
  void progress_between_ops();
};

/// An operation that does not fit or does not end throws RunAborted on the rank that finds it; the caller (mpi_world) ends the
/// job.
class MessageCommunicator final : public Communicator {
 public:
  /// Member `rank` of `members` (ranks of the world); `group` is its number, the same on all of them. `context` outlives it.
  MessageCommunicator(MessageRank& context, std::string name, int group, std::vector<int> members, int rank);
  ~MessageCommunicator() override;
  MessageCommunicator(const MessageCommunicator&) = delete;
  MessageCommunicator& operator=(const MessageCommunicator&) = delete;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  void attach(Stream& stream, Team& team) override;
  MemorySource& window(MemorySource& usual) override { return usual; }

  /// Does what can be done now for the operations under way.
  void progress();
  bool busy() const { return !running_.empty(); }

  const std::vector<int>& members() const { return group_.members; }
  int world_rank(int member) const { return group_.members[static_cast<std::size_t>(member)]; }
  /// Has the ranks compare what they enter, as for every operation, and no more.
  Request announce(const Operation& operation);
  /// Makes a group as split() does, when the members are known.
  std::unique_ptr<MessageCommunicator> make_message_group(int colour, std::vector<int> members);

 private:
  friend class HostFirstCommunicator;
  friend class CollectivePending;
  friend class LetterPending;
  Request issue(const Operation& operation) override;
  std::unique_ptr<Communicator> make_group(int colour, std::vector<int> members) override;
  void enter(const Operation& operation, std::uint64_t sequence, std::int64_t count);
  std::string report(int other) const;
  std::string last_operations() const;
  // Throws RunAborted when this rank has waited since `since` for longer than the timeout; 0 becomes now. `other`: the member
  // that a message comes from or goes to, or -1.
  void check_time(double& since, int other) const;
  void waits_no_more(double since) const;
  template <class Done>
  void await(Done done, int other);

  MessageRank& context_;
  MessageGroup group_;
  std::uint64_t issued_ = 0, done_ = 0;                    // operations
  std::deque<std::unique_ptr<MessageOperation>> running_;  // pieces of operations
  std::vector<std::unique_ptr<MessageOperation>> idle_;
  int groups_made_ = 0;
};

}  // namespace lockstep::comm
