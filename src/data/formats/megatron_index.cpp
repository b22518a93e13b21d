#include "data/formats/megatron_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace lockstep::data {
namespace {

// Magic of 9 bytes, version of 8, a type of 1, numbers of sequences and of document ends of 8 each.
constexpr std::uint64_t header_bytes = 34;
constexpr std::int64_t version = 1;
// class DType: bytes by its code; 0: no integers.
constexpr std::array<int, 9> bytes_of_type{0, 1, 1, 2, 4, 8, 0, 0, 2};

template <class Number>
Number number_at(const io::ByteSource& bytes, std::uint64_t place) {
  Number value{};
  bytes.read_at(place, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace

/// Numbers of one kind, read some at a time.
class MegatronIndex::Numbers {
 public:
  Numbers(const io::ByteSource& bytes, std::uint64_t place, std::int64_t count, std::size_t width)
      : bytes_(bytes), place_(place), left_(count), width_(width) {}
  std::int64_t next() {
    if (at_ == read_.size()) {
      constexpr std::int64_t some = 8192;
      read_.resize(static_cast<std::size_t>(std::min(left_, some)) * width_);
      bytes_.read_at(place_, read_);
      place_ += read_.size();
      left_ -= std::min(left_, some);
      at_ = 0;
    }
    std::int32_t narrow = 0;
    std::int64_t wide = 0;
    width_ == 4 ? std::memcpy(&narrow, &read_[at_], 4) : std::memcpy(&wide, &read_[at_], 8);
    at_ += width_;
    return width_ == 4 ? narrow : wide;
  }

 private:
  const io::ByteSource& bytes_;
  std::uint64_t place_;
  std::int64_t left_;
  std::size_t width_, at_ = 0;
  std::vector<std::byte> read_;
};

io::Path megatron_index_path(const io::Path& tokens) { return io::Path(tokens).replace_extension(".idx"); }

MegatronIndex::MegatronIndex(const io::ByteSource& bytes, const std::string& name) : bytes_(bytes), name_(name) {
  const std::uint64_t size = bytes.size();
  if (size < header_bytes) refuse("it is too short");
  if (const auto found = number_at<std::int64_t>(bytes, 9); found != version)
    refuse(fmt::format("it has version {}, and this program reads version {}", found, version));
  const auto type = number_at<std::uint8_t>(bytes, 17);
  if (type >= bytes_of_type.size() || bytes_of_type[type] == 0) refuse(fmt::format("its type {} is none of token ids", type));
  token_bytes_ = bytes_of_type[type];
  const auto sequences = number_at<std::uint64_t>(bytes, 18), ends = number_at<std::uint64_t>(bytes, 26);
  const std::uint64_t rest = size - header_bytes;
  const bool possible = sequences <= rest / 12 && ends <= rest / 8;
  const std::uint64_t needed = possible ? sequences * 12 + ends * 8 : 0;
  if (!possible || (rest != needed && rest != needed + sequences)) {  // a byte more each: modes of sequences
    refuse(fmt::format("it has {} bytes, which {} sequences and {} ends of documents do not take", format_count(size), sequences,
                       ends));
  }
  if (ends == 0) refuse("it has no document");
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(ends) - 1;
  walk([](std::int64_t) {});
  Numbers lengths(bytes_, header_bytes, sequences_, 4);
  for (std::int64_t i = 0; i < sequences_; ++i) tokens_ += lengths.next();
}

void MegatronIndex::for_each_end(const std::function<void(std::int64_t)>& use) const { walk(use); }

void MegatronIndex::walk(const std::function<void(std::int64_t)>& end) const {
  const auto all = static_cast<std::uint64_t>(sequences_);
  Numbers lengths(bytes_, header_bytes, sequences_, 4), pointers(bytes_, header_bytes + all * 4, sequences_, 8),
      ends(bytes_, header_bytes + all * 12, documents_ + 1, 8);
  if (const std::int64_t first = ends.next(); first != 0) refuse(fmt::format("its first document begins at sequence {}", first));
  std::int64_t sequence = 0, token = 0, ended = 0;
  for (std::int64_t document = 0; document < documents_; ++document) {
    const std::int64_t last = ends.next();
    if (last < sequence || last > sequences_)
      refuse(fmt::format("its document {} ends at sequence {} of {}", document, last, sequences_));
    for (; sequence < last; ++sequence) {
      const std::int64_t length = lengths.next(), pointer = pointers.next();
      if (length < 0) refuse(fmt::format("its sequence {} has {} tokens", sequence, length));
      if (pointer != token * token_bytes_)
        refuse(fmt::format("its sequence {} begins at byte {}, and the one before ends at {}", sequence, pointer,
                           token * token_bytes_));
      token += length;
    }
    if (token > ended) end(token);
    ended = token;
  }
  if (sequence != sequences_) refuse(fmt::format("{} of its {} sequences are in no document", sequences_ - sequence, sequences_));
}

void MegatronIndex::refuse(const std::string& why) const {
  throw UserError(fmt::format("the Megatron index {}: {}", name_, why), "make or copy it again; without it, the .bin is raw ids");
}

}  // namespace lockstep::data
