#pragma once

// Where a request ends among the bytes of a connection. A thread takes it only then, so that a slow client holds none.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace lockstep::io::http {

inline constexpr std::uint64_t most_head = 128 << 10;  ///< bytes of a request beside its body

class RequestEnd {
 public:
  explicit RequestEnd(std::uint64_t body_bytes) : body_bytes_(body_bytes) {}
  /// Whether all of a request has come. `came`: every byte from its beginning on; more than last time. True as well where the end
  /// is not plain or the request is too large: who reads it refuses it.
  bool reached(std::string_view came);
  /// Whether the client waits with its body until it is told to go on (RFC 9110, 10.1.1). True once.
  bool expects() { return std::exchange(expects_, false); }

 private:
  enum class Part : std::uint8_t { head, body, chunk, trailer };
  void read_head(std::string_view head);
  std::uint64_t body_bytes_, at_ = 0;  ///< no byte before is looked at again; of a body: its end
  Part part_ = Part::head;
  bool expects_ = false;
};

}  // namespace lockstep::io::http
