#include "app/session.h"

namespace lockstep::app {

Session::Session(int threads, ops::Isa isa)
    : isa_(isa == ops::Isa::automatic ? ops::available_isas().front() : isa),
      runtime_(open_runtime({}, {.threads = threads})),
      stream_(runtime_->make_stream()),
      ops_(ops::make_ops(*runtime_, *stream_, {.isa = isa})),
      world_(comm::make_self()) {}

}  // namespace lockstep::app
