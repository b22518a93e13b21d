#pragma once

// Ranks that share memory: every rank does its share of a collective straight from the others' buffers into theirs. Work goes
// forward when a rank issues or waits, and between the ops of its stream.

#include <array>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/host/board.h"
#include "comm/host/rank.h"

namespace lockstep::comm::host {

class HostCommunicator final : public Communicator {
 public:
  /// Member `rank` of `members` (ranks of the world). `context` outlives it; the board's memory lives as long as the run.
  HostCommunicator(Rank& context, std::string name, Board board, std::vector<int> members, int rank);
  ~HostCommunicator() override;
  HostCommunicator(const HostCommunicator&) = delete;
  HostCommunicator& operator=(const HostCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return board_.ranks(); }
  void attach(Stream& stream, Team& team) override;
  MemorySource& window(MemorySource& usual) override {
    return context_.window != nullptr && usual.device().is_host() ? *context_.window : usual;
  }

  /// Does what can be done now for the operations under way.
  void progress();

 private:
  friend class HostPending;
  // This rank's side of an operation under way.
  struct Own {
    Operation operation;
    std::vector<std::int64_t> out_counts;
  };
  // A receive that has not found its letter.
  struct Receive {
    Tensor to;
    int from;
    std::uint64_t ticket;
  };

  Request issue(const Operation& operation) override;
  std::unique_ptr<Communicator> make_group(int colour, std::vector<int> members) override;
  Request start(const Operation& operation);
  Request enter(const Operation& operation);
  Request post(const Operation& operation);
  Request expect(const Operation& operation);
  void execute(std::uint64_t sequence);
  bool take(const Receive& receive);
  bool all_done(std::uint64_t sequence);
  bool all_entered(std::uint64_t sequence) const;
  void check_counts(const Operation& operation, std::uint64_t sequence) const;

  // How long something has been waited for; infinity: it may take for ever.
  struct Patience {
    double since = std::numeric_limits<double>::infinity();
    int turn = 0;
  };
  // Waits for `done`, seeing to everything else meanwhile. `sequence`: the collective waited for, or none for a message.
  template <class Done>
  void await(Done done, const std::uint64_t* sequence, int other);
  // One turn of await(). True when `done` is.
  template <class Done>
  bool attempt(Done done, Patience& patience, const std::uint64_t* sequence, int other);
  // Ranks that have not come to what is waited for, and one of them that has ended, or -1.
  std::vector<int> absent(const std::uint64_t* sequence, int other) const;
  int gone_of(const std::uint64_t* sequence, int other) const;
  void check_others(double since, const std::uint64_t* sequence, int other, int gone) const;
  [[noreturn]] void abort(const std::string& reason) const;

  Rank& context_;
  std::string name_;
  Board board_;
  std::vector<int> members_;
  int rank_;
  std::uint64_t entered_ = 0;   // operations issued
  std::uint64_t executed_ = 0;  // operations whose share this rank has done
  std::uint64_t finished_ = 0;  // operations that every member has done
  std::array<Own, Board::depth> own_;
  std::vector<std::uint64_t> sent_, received_;  // tickets by other rank
  std::vector<std::uint64_t> taken_;            // receives done, by other rank
  std::deque<Receive> receives_;
  int groups_made_ = 0;
};

}  // namespace lockstep::comm::host
