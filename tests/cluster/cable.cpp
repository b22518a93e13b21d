// A cable between two hosts that are network namespaces, with the faults of a bad one:
//   cable HOST1 HOST2        makes the TAP devices `cable1` in namespace HOST1 and `cable2` in HOST2, and carries frames between
//   them
// A line of standard input sets what happens to the frames from then on; its end, or a signal, ends the cable:
//   delay MILLISECONDS | loss SHARE | cut | cut 1 | cut 2 | join
// `cut 1` loses what host 1 sends, `cut` all. Each line is answered with "done".

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

/// A network namespace.
class Space {
 public:
  explicit Space(const std::string& file) : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) fail(file);
  }
  ~Space() { close(descriptor_); }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  void enter() const {
    if (setns(descriptor_, CLONE_NEWNET) != 0) fail("setns");
  }

 private:
  int descriptor_;
};

/// The device is made in the namespace that the process is in when it asks for it, and lives as long as its descriptor.
int make_tap(const std::string& host, const std::string& name) {
  Space("/run/netns/" + host).enter();
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(tap, TUNSETIFF, &request) != 0) fail(name);
  return tap;
}

struct Frame {
  Clock::time_point due;
  std::vector<char> bytes;
};

/// What one host sends to the other.
struct Direction {
  int from, to;
  bool cut = false;
  std::deque<Frame> under_way = {};
};

class Cable {
 public:
  Cable(int tap1, int tap2) : directions_{Direction{tap1, tap2}, Direction{tap2, tap1}} {}

  void run() {
    std::string typed;
    for (;;) {
      std::array<pollfd, 3> ready{pollfd{directions_[0].from, POLLIN, 0}, pollfd{directions_[1].from, POLLIN, 0},
                                  pollfd{STDIN_FILENO, POLLIN, 0}};
      const timespec wait = until_due();
      if (ppoll(ready.data(), ready.size(), &wait, nullptr) < 0) fail("poll");
      if (ready[2].revents != 0 && !obey(typed)) return;
      for (Direction& direction : directions_) {
        take(direction);
        deliver(direction);
      }
    }
  }

 private:
  timespec until_due() const {
    auto wait = std::chrono::nanoseconds(std::chrono::seconds(1));
    for (const Direction& direction : directions_) {
      if (direction.under_way.empty()) continue;
      const std::chrono::nanoseconds rest = direction.under_way.front().due - Clock::now();
      wait = std::clamp(rest, std::chrono::nanoseconds(0), wait);
    }
    return {.tv_sec = wait.count() / 1'000'000'000, .tv_nsec = wait.count() % 1'000'000'000};
  }

  void take(Direction& direction) {
    std::array<char, 65536> buffer;
    for (int n = 0; n < 64; ++n) {
      const ssize_t got = read(direction.from, buffer.data(), buffer.size());
      if (got <= 0) return;
      if (direction.cut || std::bernoulli_distribution(loss_)(draw_)) continue;
      direction.under_way.push_back({Clock::now() + delay_, {buffer.data(), buffer.data() + got}});
    }
  }

  void deliver(Direction& direction) {
    while (!direction.under_way.empty() && direction.under_way.front().due <= Clock::now()) {
      const std::vector<char>& bytes = direction.under_way.front().bytes;
      // A device that is down, or whose queue is full, loses the frame, as a cable would.
      [[maybe_unused]] const ssize_t sent = write(direction.to, bytes.data(), bytes.size());
      direction.under_way.pop_front();
    }
  }

  /// Does what the whole lines say. False: there are no more.
  bool obey(std::string& typed) {
    std::array<char, 256> buffer;
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got <= 0) return false;
    typed.append(buffer.data(), static_cast<std::size_t>(got));
    for (std::size_t end = typed.find('\n'); end != std::string::npos; end = typed.find('\n')) {
      obey_line(typed.substr(0, end));
      typed.erase(0, end + 1);
      std::puts("done");
      std::fflush(stdout);
    }
    return true;
  }

  void obey_line(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    double value = 0;
    words >> what >> value;
    if (what == "delay") {
      delay_ = std::chrono::microseconds(static_cast<std::int64_t>(value * 1000));
    } else if (what == "loss") {
      loss_ = std::clamp(value, 0.0, 1.0);
    } else if (what == "cut" || what == "join") {
      for (int host = 1; host <= 2; ++host) {
        Direction& direction = directions_.at(static_cast<std::size_t>(host - 1));
        if (value == 0 || value == host) direction.cut = what == "cut";
        if (direction.cut) direction.under_way.clear();
      }
    } else {
      throw std::runtime_error("'" + line + "' is no command of the cable");
    }
  }

  std::array<Direction, 2> directions_;
  std::chrono::microseconds delay_{0};
  double loss_ = 0;
  std::mt19937 draw_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: cable HOST1 HOST2\n", stderr);
    return 2;
  }
  try {
    const Space own("/proc/self/ns/net");
    const int tap1 = make_tap(argv[1], "cable1"), tap2 = make_tap(argv[2], "cable2");
    own.enter();  // else it would be one of a host's processes
    Cable(tap1, tap2).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cable: %s\n", error.what());
    return 1;
  }
  return 0;
}
