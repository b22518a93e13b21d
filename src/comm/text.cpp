#include "comm/text.h"

#include <cstdint>
#include <numeric>
#include <span>

namespace lockstep::comm {
namespace {

Tensor view_of(std::string& text) {
  return view(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), Shape{std::ssize(text)});
}
Tensor view_of(std::int64_t& length) { return view(std::span(&length, 1), Shape{1}); }

std::string room(std::int64_t length) { return std::string(static_cast<std::size_t>(length), '\0'); }

}  // namespace

std::string lead_text(Communicator& world, std::string text) {
  std::int64_t length = std::ssize(text);
  world.host().broadcast(view_of(length), 0).wait();
  text.resize(static_cast<std::size_t>(length));
  world.host().broadcast(view_of(text), 0).wait();
  return text;
}

std::vector<std::string> all_texts(Communicator& world, std::string text) {
  std::int64_t length = std::ssize(text);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(world.size()));
  const std::vector<std::int64_t> ones(lengths.size(), 1);
  world.host().all_gather(view(std::span(lengths), Shape{world.size()}), view_of(length), ones).wait();
  std::string all = room(std::reduce(lengths.begin(), lengths.end()));
  world.host().all_gather(view_of(all), view_of(text), lengths).wait();
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::int64_t part : lengths) {
    texts.push_back(all.substr(at, static_cast<std::size_t>(part)));
    at += texts.back().size();
  }
  return texts;
}

void send_text(Communicator& world, std::string text, int to) {
  std::int64_t length = std::ssize(text);
  world.host().send(view_of(length), to).wait();
  world.host().send(view_of(text), to).wait();
}

std::string receive_text(Communicator& world, int from) {
  std::int64_t length = 0;
  world.host().receive(view_of(length), from).wait();
  std::string text = room(length);
  world.host().receive(view_of(text), from).wait();
  return text;
}

}  // namespace lockstep::comm
