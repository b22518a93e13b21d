#include "train/serving/page_book.h"

#include <algorithm>
#include <ranges>

#include "base/error.h"
#include "model/attention/kv_cache.h"

namespace lockstep::train {

using ops::page_keys;

PageBook::PageBook(std::int64_t pages) : pages_(static_cast<std::size_t>(pages)), available_(pages) {}

std::int32_t PageBook::find(std::uint64_t before, std::span<const std::int32_t> tokens) const {
  const auto found = std::ranges::find_if(pages_, [&](const Page& page) {
    return page.serial != 0 && page.before == before && std::ranges::equal(page.tokens, tokens);
  });
  return found == pages_.end() ? -1 : static_cast<std::int32_t>(found - pages_.begin());
}

void PageBook::hold(Page& page) {
  if (page.texts++ == 0) --available_;
}

std::optional<PageBook::Hold> PageBook::take(std::span<const std::int32_t> tokens, std::int64_t positions) {
  Hold result;
  const std::int64_t needed = model::pages_for(positions);
  result.pages.reserve(static_cast<std::size_t>(needed));
  std::int64_t idle = 0;  // of the known pages
  for (std::uint64_t before = 0; result.known + page_keys < std::ssize(tokens);) {
    const std::int32_t page =
        find(before, tokens.subspan(static_cast<std::size_t>(result.known), static_cast<std::size_t>(page_keys)));
    if (page < 0) break;
    const Page& known = pages_[static_cast<std::size_t>(page)];
    result.pages.push_back(page);
    result.known += page_keys;
    before = known.serial;
    idle += known.texts == 0 ? 1 : 0;
  }
  if (available_ - idle < needed - std::ssize(result.pages)) return {};
  for (const std::int32_t page : result.pages) hold(pages_[static_cast<std::size_t>(page)]);
  while (std::ssize(result.pages) < needed) {
    // Takes the idle page whose last use is longest ago.
    Page* oldest = nullptr;
    for (Page& page : pages_) {
      if (page.texts == 0 && (oldest == nullptr || page.last_used < oldest->last_used)) oldest = &page;
    }
    ensure(oldest != nullptr, "as many pages are idle as were counted");
    oldest->serial = 0;
    hold(*oldest);
    result.pages.push_back(static_cast<std::int32_t>(oldest - pages_.data()));
  }
  return result;
}

void PageBook::filled(const Hold& hold, std::int64_t index, std::span<const std::int32_t> tokens) {
  const auto page_at = [&](std::int64_t i) -> Page& {
    return pages_[static_cast<std::size_t>(hold.pages[static_cast<std::size_t>(i)])];
  };
  const std::uint64_t before = index == 0 ? 0 : page_at(index - 1).serial;
  if (index > 0 && before == 0) return;   // what comes before is known by another page
  if (find(before, tokens) >= 0) return;  // another text was first
  Page& page = page_at(index);
  std::ranges::copy(tokens, page.tokens.begin());
  page.serial = ++serials_;
  page.before = before;
}

void PageBook::give_back(const Hold& hold) {
  ++clock_;
  for (const std::int32_t number : hold.pages | std::views::reverse) {
    Page& page = pages_[static_cast<std::size_t>(number)];
    ensure(page.texts > 0, "a page is given back once");
    if (--page.texts == 0) ++available_;
    // A text's last pages are reused first: other texts may begin with its first pages.
    page.last_used = page.serial == 0 ? 0 : ++clock_;
  }
}

}  // namespace lockstep::train
