#pragma once

// Which pages of a cache of keys and values belong to which texts (Kwon et al. 2023). Full pages of texts that have ended are
// kept until their place is needed. A text with the same beginning then does not read its tokens again.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/attention.h"

namespace lockstep::train {

class PageBook {
 public:
  explicit PageBook(std::int64_t pages);

  struct Hold {
    std::vector<std::int32_t> pages;
    std::int64_t known = 0;  ///< tokens of the text that its first pages hold already: whole pages, and never the whole text
  };
  /// Takes pages for `positions` positions of a text that begins with `tokens`. None where too few pages are free.
  std::optional<Hold> take(std::span<const std::int32_t> tokens, std::int64_t positions);
  /// Page number `index` of the hold is to have the keys of `tokens` [page_keys]. The pages before it have the text before these
  /// tokens. Where another page has these keys, it takes the place of the hold's own. Returns whether it does.
  bool take_known(Hold& hold, std::int64_t index, std::span<const std::int32_t> tokens);
  /// The same, where the hold's own page has the keys by now. It becomes known unless another page is.
  bool filled(Hold& hold, std::int64_t index, std::span<const std::int32_t> tokens);
  void give_back(const Hold& hold);

  std::int64_t size() const { return static_cast<std::int64_t>(pages_.size()); }
  /// Pages that no text uses; they may hold known tokens.
  std::int64_t available() const { return available_; }

 private:
  struct Page {
    std::array<std::int32_t, ops::page_keys> tokens;
    std::uint64_t serial = 0;  ///< of the page's content, a number that is never used again; 0: the content is unknown
    std::uint64_t before = 0;  ///< the serial of the page before it; 0: it begins a text
    std::uint64_t last_used = 0;
    std::int64_t texts = 0;
  };
  /// The page with these tokens behind the page with serial `before`; -1: none.
  std::int32_t find(std::uint64_t before, std::span<const std::int32_t> tokens) const;
  void hold(Page& page);
  void release(Page& page);
  Page& page_of(const Hold& hold, std::int64_t index);
  /// The serial of what stands before page number `index`; nothing where it is not known.
  std::optional<std::uint64_t> before(const Hold& hold, std::int64_t index);
  std::vector<Page> pages_;
  std::int64_t available_;
  std::uint64_t serials_ = 0, clock_ = 0;
};

}  // namespace lockstep::train
