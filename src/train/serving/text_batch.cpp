#include "train/serving/text_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/math/elementary.h"

namespace lockstep::train {

using ops::page_keys;

namespace {

std::span<const std::int32_t> tokens_of_page(const std::vector<std::int32_t>& tokens, std::int64_t page) {
  return std::span(tokens).subspan(static_cast<std::size_t>(page * page_keys), static_cast<std::size_t>(page_keys));
}

}  // namespace

TextBatch::TextBatch(const ModelShare& model, const BatchSize& size, Team& team)
    : context_(model.context),
      size_(size),
      team_(team),
      decoder_(model, {.texts = size.texts, .positions = 0, .pages = size.pages}, most_rows()),
      logits_(model.context.dims, *model.context.boundaries.head, model.context.config.vocabulary, size.texts),
      book_(size.pages),
      texts_(static_cast<std::size_t>(size.texts)),
      samplers_(static_cast<std::size_t>(team.size())) {
  ensure(size.texts >= 1 && size.pages >= 1, "a batch has room for a text");
  ensure(size.rows >= size.texts, "a pass reads a token of every text");
  ensure(decoder_.alone(), "one rank writes texts side by side");
  const auto texts = static_cast<std::size_t>(size.texts);
  pass_.reserve(texts), order_.reserve(texts), drawing_.reserve(texts);
  drawn_.resize(texts), likely_.resize(texts * BatchSize::most_likely);
}

void TextBatch::declare(Arena& workspace, Arena& cache) {
  decoder_.declare(workspace, cache);
  workspace.declare(tokens_, "tokens", Shape{most_rows()}, DType::i32);
  logits_.declare(workspace);
}

std::int64_t TextBatch::longest() const { return std::min(context_.config.block_size, size_.pages * page_keys); }

std::int64_t TextBatch::active() const {
  return std::ranges::count_if(texts_, [](const auto& text) { return text.has_value(); });
}

std::optional<std::int64_t> TextBatch::begin(WantedText wanted) {
  const std::int64_t positions = std::ssize(wanted.prompt) + wanted.sampling.tokens;
  ensure(!wanted.prompt.empty() && wanted.sampling.tokens >= 1 && positions <= longest(), "a text fits into the cache");
  ensure(std::ranges::all_of(wanted.prompt, [&](std::int32_t id) { return id >= 0 && id < context_.config.vocabulary; }),
         "a prompt has ids of the model's vocabulary");
  ensure(wanted.likely <= BatchSize::most_likely, "so many likely tokens have room");
  const auto free = std::ranges::find_if(texts_, [](const auto& text) { return !text.has_value(); });
  if (free == texts_.end()) return {};
  std::optional<PageBook::Hold> hold = book_.take(wanted.prompt, positions);
  if (!hold) return {};
  const std::int64_t place = free - texts_.begin();
  // Fewer may be drawn in a small vocabulary.
  wanted.likely = std::min(wanted.likely, context_.config.vocabulary - std::ssize(wanted.sampling.never));
  decoder_.decoder().cache().set_pages(place, 0, hold->pages);
  tokens_saved_ += hold->known;
  const CounterRng rng(wanted.sampling.seed, fmt::format("sample.{}", wanted.sampling.number));
  Text text{.wanted = std::move(wanted), .hold = std::move(*hold), .rng = rng, .tokens = {}, .number = ++begun_};
  text.read = text.hold.known;
  text.tokens.reserve(static_cast<std::size_t>(positions));
  text.tokens = text.wanted.prompt;
  *free = std::move(text);
  return place;
}

void TextBatch::end(std::int64_t place) {
  std::optional<Text>& text = texts_[static_cast<std::size_t>(place)];
  ensure(text.has_value(), "there is a text at a place that is freed");
  book_.give_back(text->hold);
  text.reset();
}

void TextBatch::choose() {
  pass_.clear();
  order_.clear();
  for (std::int64_t place = 0; place < size_.texts; ++place) {
    if (!texts_[static_cast<std::size_t>(place)]) continue;
    skip_known(place);
    order_.push_back(place);
  }
  // What is written goes on in every pass; the rest is for prompts, the oldest first.
  const auto at = [&](std::int64_t place) -> const Text& { return *texts_[static_cast<std::size_t>(place)]; };
  std::ranges::sort(order_, {}, [&](std::int64_t place) { return std::pair(at(place).unread() > 1, at(place).number); });
  const bool writes = !order_.empty() && at(order_.front()).unread() == 1;
  const std::int64_t most = writes ? size_.rows : most_rows();
  std::int64_t rows = 0;
  for (const std::int64_t place : order_) {
    const std::int64_t count = std::min(at(place).unread(), most - rows);
    if (count == 0) break;
    pass_.push_back({.first = rows, .rows = count, .position = at(place).read, .text = place});
    rows += count;
  }
}

void TextBatch::skip_known(std::int64_t place) {
  Text& text = *texts_[static_cast<std::size_t>(place)];
  for (std::int64_t page = text.read / page_keys; (page + 1) * page_keys < std::ssize(text.tokens); ++page) {
    if (!book_.take_known(text.hold, page, tokens_of_page(text.tokens, page))) return;
    decoder_.decoder().cache().set_pages(place, 0, text.hold.pages);
    tokens_saved_ += (page + 1) * page_keys - text.read;
    text.read = (page + 1) * page_keys;
  }
}

void TextBatch::settle_pages(std::int64_t place, std::int64_t before) {
  Text& text = *texts_[static_cast<std::size_t>(place)];
  for (std::int64_t page = before / page_keys; (page + 1) * page_keys <= text.read; ++page) {
    if (book_.filled(text.hold, page, tokens_of_page(text.tokens, page)))
      decoder_.decoder().cache().set_pages(place, 0, text.hold.pages);
  }
}

void TextBatch::draw(std::span<float> logits, std::int64_t turn, int worker) {
  const auto at = static_cast<std::size_t>(turn);
  const Text& text = *texts_[static_cast<std::size_t>(drawing_[at])];
  const SampleOptions& sampling = text.wanted.sampling;
  LikelyToken& drawn = drawn_[at];
  double log_sum = 0;
  if (text.wanted.likely >= 0) {
    const double top = *std::ranges::max_element(logits);
    for (const float logit : logits) log_sum += exponential(logit - top);
    log_sum = top + logarithm(log_sum);
  }
  // Likelihoods are those of all logits. What may not be drawn is not told either: no text has it.
  for (const std::int32_t id : sampling.never) logits[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
  if (text.wanted.likely > 0) {
    const std::span<LikelyToken> likely =
        std::span(likely_).subspan(at * BatchSize::most_likely, static_cast<std::size_t>(text.wanted.likely));
    std::size_t found = 0;
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const LikelyToken next{static_cast<std::int32_t>(token), logits[token] - log_sum};
      if (found == likely.size() && next.log_probability <= likely.back().log_probability) continue;
      std::size_t i = found < likely.size() ? found++ : found - 1;
      for (; i > 0 && likely[i - 1].log_probability < next.log_probability; --i) likely[i] = likely[i - 1];
      likely[i] = next;
    }
  }
  const auto own = [&](std::int32_t token) { return static_cast<double>(logits[static_cast<std::size_t>(token)]); };
  drawn.token = samplers_[static_cast<std::size_t>(worker)].draw(logits, sampling,
                                                                 text.rng.uniform(static_cast<std::uint64_t>(text.written())));
  drawn.log_probability = text.wanted.likely >= 0 ? own(drawn.token) - log_sum : 0;
}

bool TextBatch::step(const std::function<void(const WrittenToken&)>& each) {
  choose();
  if (pass_.empty()) return false;
  Stream& stream = context_.ops.stream();
  const std::int64_t rows = pass_.back().first + pass_.back().rows;
  const Mirror ids = tokens_.flat(0, rows);
  settle(stream, ids);
  for (const ops::CachedText& piece : pass_) {
    const Text& text = *texts_[static_cast<std::size_t>(piece.text)];
    std::copy_n(text.tokens.begin() + piece.position, piece.rows, elements<std::int32_t>(ids.host).begin() + piece.first);
  }
  upload(stream, ids);
  const Tensor x = decoder_.read(ids.device, pass_);
  drawing_.clear();
  for (const ops::CachedText& piece : pass_) {
    Text& text = *texts_[static_cast<std::size_t>(piece.text)];
    text.read += piece.rows;
    settle_pages(piece.text, piece.position);
    if (text.unread() > 0) continue;
    // Rows whose logits are wanted are moved together.
    const std::int64_t to = std::ssize(drawing_), from = piece.first + piece.rows - 1;
    if (from != to) context_.ops.elementwise().cast(x.slice_rows(to, 1), x.slice_rows(from, 1));
    drawing_.push_back(piece.text);
  }
  const std::int64_t turns = std::ssize(drawing_);
  if (turns == 0) return true;
  decoder_.decoder().logits(logits_.own(turns), x.slice_rows(0, turns));
  const Tensor logits = logits_.bring(stream, turns);
  team_.for_each(turns, [&](std::int64_t turn, int worker) { draw(elements<float>(logits.slice_rows(turn, 1)), turn, worker); });
  for (std::size_t turn = 0; turn < drawing_.size(); ++turn) {
    const std::int64_t place = drawing_[turn];
    std::optional<Text>& text = texts_[static_cast<std::size_t>(place)];
    text->tokens.push_back(drawn_[turn].token);
    const bool last = text->written() == text->wanted.sampling.tokens;
    const auto likely = static_cast<std::size_t>(std::max<std::int64_t>(text->wanted.likely, 0));
    const WrittenToken written{place, drawn_[turn], std::span(likely_).subspan(turn * BatchSize::most_likely, likely), last};
    if (last) end(place);
    each(written);
  }
  return true;
}

}  // namespace lockstep::train
