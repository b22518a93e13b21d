#pragma once

// A parameter server's side. The server holds its part of every unit. It takes what workers push in the order in which it comes,
// and gives them the weights. The caller decides what becomes of a push (train/server).

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "device/team.h"
#include "parallel/server/messages.h"
#include "parallel/server/server_memory.h"
#include "parallel/training_state.h"

namespace lockstep::parallel {

class Server {
 public:
  /// The first ranks of `world` are the workers, the others the servers. `memory` is this server's. All arguments outlive this.
  Server(comm::Communicator& world, const ServerMemory& memory, Team& team);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  using Part = ServerMemory::Part;
  /// The parts as training state, with what `worker` pushed as the gradient.
  TrainingState& state(int worker);
  /// `out` = the reduction of what workers 0, 1, ... pushed, in the order of comm/combine.
  void combine(comm::Reduction reduction, const std::vector<Tensor>& pushed, const Tensor& out);

  /// A worker's call. If it is a push, all of the push has arrived.
  struct Visit {
    int worker;
    Errand errand;
    std::int64_t step;
    std::int64_t updates;
    Figures figures;
  };
  /// Blocks until a worker calls. A worker whose push is not answered, or that has left, does not call: at least one
  /// other must be there.
  Visit next();
  /// Answers the pushes of `workers`: each gets the weights and `answer`.
  void answer(std::span<const int> workers, const Answer& answer);
  /// These answer the other errands of `worker`.
  void give_weights(int worker);
  void take_state(int worker);
  void give_slots(int worker);  ///< and gives the number of updates

 private:
  enum class Stage : std::uint8_t { idle, calling, pushing, visiting, gone };
  struct Caller {
    Stage stage = Stage::idle;
    Call call;
    Figures figures;
    comm::Request last;                 ///< the message that completes a call or a push
    std::vector<comm::Request> pieces;  ///< the messages before `last`
  };
  void listen(int worker);
  void expect_push(int worker);
  void done_with(int worker) { caller(worker).stage = Stage::idle; }
  const layout::KeyRanges& ranges() const { return memory_.ranges; }
  Caller& caller(int worker) { return callers_[static_cast<std::size_t>(worker)]; }

  // A server's ranges lie here, and no other rank has them.
  class State final : public TrainingState {
   public:
    explicit State(Server& server) : server_(server) {}
    const std::vector<layout::Unit>& units() const override { return server_.ranges().units(); }
    const std::vector<std::string>& slots() const override { return server_.memory_.keeps.slots; }
    DType type() const override { return server_.memory_.keeps.type; }
    DType slot_type() const override { return server_.memory_.keeps.slot_type; }
    void distribute(std::int64_t /*step*/) override {}
    void gather() override {}
    void check_copies() override {}
    void collect() override {}
    std::size_t worker = 0;

   private:
    void visit(const Use& use, Call call, void* body) override;
    Server& server_;
  };

  comm::Communicator& world_;
  const ServerMemory& memory_;
  Team& team_;
  State state_{*this};
  std::vector<Caller> callers_;
  std::vector<comm::Request> sends_;
  Answer answer_;
  std::size_t turn_ = 0;
};

}  // namespace lockstep::parallel
