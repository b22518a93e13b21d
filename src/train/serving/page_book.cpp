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

PageBook::Page& PageBook::page_of(const Hold& hold, std::int64_t index) {
  return pages_[static_cast<std::size_t>(hold.pages[static_cast<std::size_t>(index)])];
}

std::optional<std::uint64_t> PageBook::before(const Hold& hold, std::int64_t index) {
  if (index == 0) return 0;
  const std::uint64_t serial = page_of(hold, index - 1).serial;
  return serial == 0 ? std::nullopt : std::optional(serial);
}

bool PageBook::take_known(Hold& hold, std::int64_t index, std::span<const std::int32_t> tokens) {
  const std::optional<std::uint64_t> behind = before(hold, index);
  const std::int32_t known = behind ? find(*behind, tokens) : -1;
  if (known < 0 || known == hold.pages[static_cast<std::size_t>(index)]) return false;
  this->hold(pages_[static_cast<std::size_t>(known)]);
  release(page_of(hold, index));
  hold.pages[static_cast<std::size_t>(index)] = known;
  return true;
}

bool PageBook::filled(Hold& hold, std::int64_t index, std::span<const std::int32_t> tokens) {
  if (take_known(hold, index, tokens)) return true;
  const std::optional<std::uint64_t> behind = before(hold, index);
  Page& page = page_of(hold, index);
  if (!behind || page.serial != 0) return false;
  std::ranges::copy(tokens, page.tokens.begin());
  page.serial = ++serials_;
  page.before = *behind;
  return false;
}

void PageBook::release(Page& page) {
  ensure(page.texts > 0, "a page is given back once");
  if (--page.texts == 0) ++available_;
  page.last_used = page.serial == 0 ? 0 : ++clock_;
}

void PageBook::give_back(const Hold& hold) {
  ++clock_;
  // A text's last pages are reused first: other texts may begin with its first pages.
  for (const std::int32_t number : hold.pages | std::views::reverse) release(pages_[static_cast<std::size_t>(number)]);
}

}  // namespace lockstep::train
