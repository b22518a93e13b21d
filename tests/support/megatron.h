#pragma once

// Token files as Megatron-LM writes them: megatron/core/datasets/indexed_dataset.py, IndexedDatasetBuilder and _IndexWriter.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

struct MegatronData {
  std::vector<std::vector<std::vector<std::int64_t>>> documents;  ///< each document has sequences of ids

  std::string tokens(int bytes) const {
    std::string all;
    for (const auto& document : documents) {
      for (const auto& sequence : document) {
        for (const std::int64_t id : sequence) all.append(reinterpret_cast<const char*>(&id), static_cast<std::size_t>(bytes));
      }
    }
    return all;
  }

  std::string index(int code, int bytes) const {
    std::vector<std::int32_t> lengths;
    std::vector<std::int64_t> pointers, ends{0};
    std::int64_t pointer = 0;
    for (const auto& document : documents) {
      for (const auto& sequence : document) {
        lengths.push_back(static_cast<std::int32_t>(sequence.size()));
        pointers.push_back(pointer);
        pointer += static_cast<std::int64_t>(sequence.size()) * bytes;
      }
      ends.push_back(static_cast<std::int64_t>(lengths.size()));
    }
    const std::vector<std::uint64_t> version{1}, counts{lengths.size(), ends.size()};
    return std::string("MMIDIDX\0\0", 9) + bytes_of(version) + static_cast<char>(code) + bytes_of(counts) + bytes_of(lengths) +
           bytes_of(pointers) + bytes_of(ends);
  }
};

}  // namespace lockstep
