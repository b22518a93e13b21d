#include "model/kept_elsewhere.h"

#include <algorithm>
#include <utility>

namespace lockstep::model {
namespace {

/// Hands out memory that another owns.
class Lent final : public MemorySource {
 public:
  explicit Lent(const Tensor& memory) : memory_(memory) {}
  Memory allocate(std::size_t size) override {
    ensure(size <= memory_.bytes(), "what is lent has room");
    return {this, memory_.data, size};
  }
  Device device() const override { return memory_.device; }

 private:
  void release(std::byte* /*data*/, std::size_t /*size*/) noexcept override {}
  Tensor memory_;
};

}  // namespace

void KeptElsewhere::declare(Arena& activations, parallel::Spill& spill, layout::Tier tier, const BlockSizes& sizes,
                            const SavedNeeds& needs, const std::vector<Chunk>& chunks) {
  spill_ = &spill;
  chunks_ = chunks;
  for (std::size_t p = 0; p < place_count; ++p) model::declare(layouts_[p], places_[p].saved, sizes, needs);
  words_ = layouts_.front().bytes() / static_cast<std::int64_t>(size_of(word));
  for (Place& place : places_)
    parallel::Spill::declare(activations, place.memory, "kept, on its way", parallel::Spill::bytes_of(words_, word));
  for (const Chunk& chunk : chunks_) {
    std::vector<int>& numbers = numbers_.emplace_back();
    for (int slot = 0; slot < chunk.slots; ++slot) {
      for (const std::string& block : chunk.blocks)
        numbers.push_back(
            spill.declare({.tier = tier, .what = "activations", .of = block, .elements = words_, .type = word, .range = words_}));
    }
  }
}

void KeptElsewhere::bind() {
  if (!used()) return;
  for (std::size_t p = 0; p < place_count; ++p) {
    Ledger counted_already;
    sources_[p] = std::make_unique<Lent>(bytes(places_[p]).device);
    layouts_[p].commit(*sources_[p], counted_already);
  }
}

const KeptElsewhere::Place* KeptElsewhere::find(const Key& key) const {
  const auto found = std::ranges::find(places_, key, &Place::key);
  return found == places_.end() ? nullptr : &*found;
}

KeptElsewhere::Place* KeptElsewhere::find(const Key& key) { return const_cast<Place*>(std::as_const(*this).find(key)); }

KeptElsewhere::Place& KeptElsewhere::oldest() {
  Place& place = *std::ranges::min_element(places_, {}, &Place::used);
  spill_->finish(place.move);
  return place;
}

int KeptElsewhere::number(const Key& key) const {
  const Chunk& chunk = chunks_[static_cast<std::size_t>(key.chunk)];
  const auto slot = static_cast<std::size_t>(key.microbatch.value % chunk.slots);
  return numbers_[static_cast<std::size_t>(key.chunk)][slot * chunk.blocks.size() + key.block / chunk.every];
}

void KeptElsewhere::take(const Key& key) {
  Place* const last = find(key);  // of an earlier step
  Place& place = last != nullptr ? *last : oldest();
  spill_->finish(place.move);
  place.key = key;
  place.used = ++clock_;
}

void KeptElsewhere::put_away(const Key& key) {
  Place& place = *find(key);
  place.move = spill_->write(number(key), all(), bytes(place));
}

void KeptElsewhere::expect(const Key& key) {
  Place* place = find(key);
  if (place == nullptr) {
    place = &oldest();
    place->key = key;
    place->move = spill_->read(number(key), all(), bytes(*place));
  }
  place->used = ++clock_;
}

void KeptElsewhere::bring(const Key& key) {
  expect(key);
  spill_->finish(find(key)->move);
}

const BlockSaved& KeptElsewhere::at(const Key& key) const {
  const Place* const place = find(key);
  ensure(place != nullptr, "what a block kept was brought");
  return place->saved;
}

}  // namespace lockstep::model
