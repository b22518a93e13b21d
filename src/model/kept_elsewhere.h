#pragma once

// What blocks keep of a micro-batch for its backward pass, where that does not stay in memory (Rajbhandari et al. 2021). Each
// block writes it to one of a few places. The place is put away behind the block's forward pass and brought back ahead of its
// backward pass. The blocks beside it compute meanwhile.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/strong.h"
#include "model/saved.h"
#include "parallel/offload/spill.h"

namespace lockstep::model {

class KeptElsewhere {
 public:
  /// Blocks that are run again together count as one, which has the number of the first.
  struct Key {
    int chunk = -1;
    Microbatch microbatch;
    std::size_t block = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  /// What is kept of a chunk: as many micro-batches as `slots` says, and of each of them `blocks`, which have something to keep.
  struct Chunk {
    int slots = 1;
    std::vector<std::string> blocks;  ///< names of units, in order
    std::size_t every = 1;            ///< a block of this many has something
  };
  void declare(Arena& activations, parallel::Spill& spill, layout::Tier tier, const BlockSizes& sizes, const SavedNeeds& needs,
               const std::vector<Chunk>& chunks);
  bool used() const { return spill_ != nullptr; }
  /// Finds the tensors in the places. Called when the memory was committed.
  void bind();

  /// Finds a place for what a block is about to keep.
  void take(const Key& key);
  /// A block's forward pass is done with its place.
  void put_away(const Key& key);
  /// Begins to read what a block kept, unless it is there.
  void expect(const Key& key);
  /// Reads what a block kept, unless it is there, and waits until it is.
  void bring(const Key& key);
  /// The place that was found for a block, or that its values were brought to.
  const BlockSaved& at(const Key& key) const;

 private:
  /// One place is computed with, one is on its way to or from where it is kept, and one is the next block's.
  static constexpr std::size_t place_count = 3;
  struct Place {
    Mirror memory;     ///< u8
    BlockSaved saved;  ///< tensors in `memory`
    Key key = {};
    std::int64_t used = 0;  ///< when the place was used last, by clock_
    parallel::Spill::Move move = {};
  };
  Place* find(const Key& key);
  const Place* find(const Key& key) const;
  Place& oldest();
  int number(const Key& key) const;
  /// Tensors of several types are moved as this type.
  static constexpr DType word = DType::f32;
  layout::Range all() const { return {0, words_}; }
  Mirror bytes(const Place& place) const {
    return parallel::Spill::part(place.memory, 0, parallel::Spill::bytes_of(words_, word));
  }

  parallel::Spill* spill_ = nullptr;
  std::array<Place, place_count> places_;
  std::array<std::unique_ptr<MemorySource>, place_count> sources_;  ///< of layouts_
  std::array<Arena, place_count> layouts_{Arena{"a place", MemoryKind::activations}, Arena{"a place", MemoryKind::activations},
                                          Arena{"a place", MemoryKind::activations}};
  std::int64_t words_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<std::vector<int>> numbers_;  ///< [chunks][slots * blocks], in the Spill
  std::int64_t clock_ = 0;
};

}  // namespace lockstep::model
