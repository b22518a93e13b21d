#pragma once

// Reads TensorBoard's event files, knowing their format by its description and nothing of the writer: records by length with
// masked checksums, protocol buffers by tags.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::support {

struct SummaryEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;                  ///< of a file's first event
  int session_status = 0;               ///< 1: a start
  std::map<std::string, float> values;  ///< by tag
};

class EventReader {
 public:
  /// All events of a file; what is cut off at its end is left out.
  static std::vector<SummaryEvent> read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<SummaryEvent> events;
    for (std::size_t at = 0; bytes.size() - at >= 16;) {
      const auto length = word<std::uint64_t>(bytes, at);
      if (bytes.size() - at - 16 < length) break;
      EXPECT_EQ(word<std::uint32_t>(bytes, at + 8), masked(std::string_view(bytes).substr(at, 8)));
      const std::string_view record = std::string_view(bytes).substr(at + 12, length);
      EXPECT_EQ(word<std::uint32_t>(bytes, at + 12 + length), masked(record));
      events.push_back(event(record));
      at += 16 + length;
    }
    return events;
  }

  /// The paths of all event files in a folder, in the order of their names.
  static std::vector<std::filesystem::path> files(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      EXPECT_EQ(entry.path().filename().string().rfind("events.out.tfevents.", 0), 0U);
      paths.push_back(entry.path());
    }
    std::ranges::sort(paths);
    return paths;
  }

 private:
  template <class Word>
  static Word word(std::string_view bytes, std::size_t at) {
    Word value;
    std::memcpy(&value, bytes.substr(at).data(), sizeof(Word));
    return value;
  }

  // CRC-32C bit by bit, masked as the format's description says.
  static std::uint32_t masked(std::string_view bytes) {
    std::uint32_t crc = 0xFFFFFFFF;
    for (const char byte : bytes) {
      crc ^= static_cast<unsigned char>(byte);
      for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78U : crc >> 1;
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
  }

  static std::uint64_t varint(std::string_view bytes, std::size_t& at) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
  }

  // Calls field(number, value of a number, bytes) for every field of a message.
  template <class Field>
  static void fields(std::string_view bytes, Field&& field) {
    for (std::size_t at = 0; at < bytes.size();) {
      const std::uint64_t tag = varint(bytes, at);
      const int number = static_cast<int>(tag >> 3), wire = static_cast<int>(tag & 7);
      const std::uint64_t value = wire == 0 || wire == 2 ? varint(bytes, at) : 0;
      const std::size_t length = wire == 0 ? 0 : wire == 1 ? 8 : wire == 5 ? 4 : value;
      ASSERT_TRUE(wire != 3 && wire != 4 && wire < 6 && bytes.size() - at >= length);
      field(number, value, bytes.substr(at, length));
      at += length;
    }
  }

  static SummaryEvent event(std::string_view record) {
    SummaryEvent event;
    fields(record, [&](int number, std::uint64_t value, std::string_view bytes) {
      if (number == 1) event.wall_time = word<double>(bytes, 0);
      if (number == 2) event.step = static_cast<std::int64_t>(value);
      if (number == 3) event.version = bytes;
      if (number == 7)
        fields(bytes, [&](int, std::uint64_t status, std::string_view) { event.session_status = static_cast<int>(status); });
      if (number != 5) return;
      fields(bytes, [&](int, std::uint64_t, std::string_view scalar) {
        std::string name;
        float x = 0;
        fields(scalar, [&](int part, std::uint64_t, std::string_view content) {
          if (part == 1) name = content;
          if (part == 2) x = word<float>(content, 0);
        });
        event.values[name] = x;
      });
    });
    return event;
  }
};

}  // namespace lockstep::support
