#pragma once

// A rank's host threads, whatever its device. What the host does itself (checkpoints, hashes, copies between ranks) and the CPU's
// kernels share one team. The calling thread is worker 0. Work is a number of tiles taken from atomic counters, so a core that
// runs at half speed takes fewer. Workers spin for a bounded time, then sleep on a futex. They are pinned when the team has every
// core of the process. A call allocates nothing.

#include <cstdint>
#include <memory>
#include <type_traits>

namespace lockstep {

class Team {
 public:
  static constexpr int most_threads = 1000;
  /// `threads` is from 1 to most_threads.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  /// Calls body(tile, worker) once for every tile in [0, tiles), worker in [0, size()); returns when all are done.
  /// The first exception is rethrown. Not reentrant: body must not call the team. Tiles are begun in order.
  template <class Body>
  void for_each(std::int64_t tiles, Body&& body) {
    share(tiles, Order::ascending, body);
  }

  /// Calls body(tile, worker) for every tile, too, but each worker begins with its own part of the tiles, and then helps the
  /// others. Worker w's part begins at `tiles * w / size()`. So the same rows of a matrix are likely to be in the same core's
  /// cache from call to call. Tiles of different parts begin in any order, so none may wait for another.
  template <class Body>
  void for_each_affine(std::int64_t tiles, Body&& body) {
    share(tiles, Order::by_worker, body);
  }

  /// Calls body(worker) once on every worker at the same time; barrier() may be used inside.
  template <class Body>
  void on_all(Body&& body) {
    run_all([](void* b, std::int64_t, int worker) { (*static_cast<std::remove_reference_t<Body>*>(b))(worker); },
            const_cast<void*>(static_cast<const void*>(&body)));
  }
  /// All workers of an on_all call meet.
  void barrier();

 private:
  using Call = void (*)(void* body, std::int64_t tile, int worker);
  enum class Order : std::uint8_t { ascending, by_worker, on_all };

  template <class Body>
  void share(std::int64_t tiles, Order order, Body& body) {
    if (tiles <= 0) return;
    if (size_ == 1 || tiles == 1) {
      for (std::int64_t tile = 0; tile < tiles; ++tile) body(tile, 0);
      return;
    }
    run(
        tiles, order,
        [](void* b, std::int64_t tile, int worker) { (*static_cast<std::remove_reference_t<Body>*>(b))(tile, worker); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }
  void run(std::int64_t tiles, Order order, Call call, void* body);
  void run_all(Call call, void* body);

  int size_;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
