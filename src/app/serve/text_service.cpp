#include "app/serve/text_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/serve/api_error.h"
#include "base/timer.h"

namespace lockstep::app {

WrittenPart Writing::take(double seconds) {
  std::unique_lock lock(mutex_);
  came_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return part_.count > 0 || part_.ending != Ending::none; });
  return std::exchange(part_, {.ending = part_.ending});
}

void Writing::finish(Ending ending) {
  const std::lock_guard lock(mutex_);
  if (!stop_.found()) part_.bytes += stop_.held();
  part_.ending = ending;
  came_.notify_one();
}

void Writing::add(const train::WrittenToken& written, const data::Tokenizer& tokenizer) {
  const std::lock_guard lock(mutex_);
  part_.bytes += stop_.add(shown_bytes(tokenizer, written.token.token, asked_.shows_special));
  ++part_.count;
  if (asked_.text.likely >= 0) part_.tokens.push_back({written.token, {written.likely.begin(), written.likely.end()}});
  came_.notify_one();
}

void Histogram::take(double seconds) {
  ++counts[std::lower_bound(std::begin(bounds), std::end(bounds), seconds) - std::begin(bounds)];
  sum += seconds;
}

std::vector<std::shared_ptr<Writing>> TextService::ask(std::vector<AskedText> texts) {
  std::vector<std::shared_ptr<Writing>> result;
  result.reserve(texts.size());
  for (AskedText& text : texts) {
    result.push_back(std::make_shared<Writing>(std::move(text)));
    result.back()->asked_at_ = now_seconds();
  }
  const std::lock_guard lock(mutex_);
  const std::int64_t free_places = std::ranges::count(at_, nullptr);  // which take some of them before the next pass
  if (closed_) throw failure();
  if (std::ssize(waiting_) + std::ssize(result) > most_waiting_ + free_places) return {};
  waiting_.insert(waiting_.end(), result.begin(), result.end());
  came_.notify_one();
  return result;
}

ServiceFigures TextService::figures() const {
  const std::lock_guard lock(mutex_);
  ServiceFigures figures = figures_;
  figures.active = std::ssize(at_) - std::ranges::count(at_, nullptr);
  figures.waiting = std::ssize(waiting_);
  return figures;
}

void TextService::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  came_.notify_one();
}

void TextService::take_figures() {
  figures_.pages = batch_.pages().size();
  figures_.pages_free = batch_.pages().available();
  figures_.prompt_tokens_saved = batch_.tokens_saved();
}

bool TextService::prepare_pass() {
  std::unique_lock lock(mutex_);
  for (std::size_t place = 0; place < at_.size(); ++place) {
    if (at_[place] == nullptr || !at_[place]->abandoned_) continue;
    batch_.end(static_cast<std::int64_t>(place));
    std::exchange(at_[place], nullptr)->finish(Ending::abandoned);
    ++figures_.abandoned;
  }
  const auto begin_waiting = [&] {
    figures_.abandoned +=
        static_cast<std::int64_t>(std::erase_if(waiting_, [](const auto& writing) { return writing->abandoned_.load(); }));
    while (!waiting_.empty()) {
      const auto place = batch_.begin(waiting_.front()->asked_.text);
      if (!place) return;
      figures_.prompt_tokens += waiting_.front()->prompt_tokens();
      ++figures_.texts;
      at_[static_cast<std::size_t>(*place)] = std::move(waiting_.front());
      waiting_.pop_front();
    }
  };
  begin_waiting();
  take_figures();
  while (batch_.active() == 0) {
    if (closed_ && waiting_.empty()) return false;
    came_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    begin_waiting();
    take_figures();
  }
  return true;
}

void TextService::written(const train::WrittenToken& token) {
  std::shared_ptr<Writing>& place = at_[static_cast<std::size_t>(token.place)];
  Writing& writing = *place;
  const double now = now_seconds();
  const bool is_end = std::ranges::find(writing.asked_.ends, token.token.token) != writing.asked_.ends.end();
  if (!is_end) writing.add(token, tokenizer_);
  const bool stopped = is_end || writing.stop_.found();
  if (stopped || token.last) writing.finish(stopped ? Ending::stop : Ending::length);
  if (stopped && !token.last) batch_.end(token.place);
  const std::lock_guard lock(mutex_);
  ++figures_.written_tokens;
  writing.last_token_ == 0 ? figures_.first_token.take(now - writing.asked_at_)
                           : figures_.next_token.take(now - writing.last_token_);
  writing.last_token_ = now;
  if (stopped || token.last) place = nullptr;
}

void TextService::run() {
  try {
    while (prepare_pass()) batch_.step([&](const train::WrittenToken& token) { written(token); });
  } catch (...) {
    fail();
    throw;
  }
}

void TextService::fail() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& list : {std::vector(waiting_.begin(), waiting_.end()), at_}) {
    for (const std::shared_ptr<Writing>& writing : list) {
      if (writing != nullptr) writing->finish(Ending::abandoned);
    }
  }
}

}  // namespace lockstep::app
