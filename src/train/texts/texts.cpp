#include "train/texts/texts.h"

#include <algorithm>

#include "base/timer.h"
#include "comm/text.h"
#include "layout/rounds.h"
#include "train/texts/stop_texts.h"

namespace lockstep::train {

Pace write_texts(const TextsRequest& request, const data::Tokenizer& tokenizer, TextSampler& sampler,
                 const parallel::Groups& groups, const std::function<void(std::string_view)>& put) {
  comm::Communicator& ranks = groups.data();
  const bool lead = ranks.rank() == 0;  // of a model's ranks all collect the same texts, and all but one drop them
  const auto show = [&](std::string_view text) {
    if (groups.lead()) put(text);
  };
  const layout::Rounds rounds{request.texts, ranks.size()};
  // Where nothing ends a text, all are equally long, and nothing needs to be agreed.
  comm::Communicator* const together = request.ends.empty() && request.stops.empty() ? nullptr : &ranks;
  const std::string start = data::decode_prompt(tokenizer, request.prompt);
  Pace pace;
  for (std::int64_t round = 0; round < rounds.count(); ++round) {
    const layout::Rounds::Turn turn = rounds.turn(round, ranks.rank());
    SampleOptions sampling = request.sampling;
    sampling.number = turn.thing;
    std::string text = start;
    StopTexts stop(request.stops);
    if (lead) show(start);
    pace.tokens = 0;
    const auto give = [&](std::string_view piece) { lead ? show(piece) : void(text += piece); };
    const auto each = [&](std::int32_t token) {
      if (!turn.counts) return together == nullptr;  // a text that is dropped keeps the others from nothing
      if (std::ranges::find(request.ends, token) != request.ends.end()) return false;
      give(stop.add(tokenizer.bytes(token)));
      (pace.tokens++ == 0 ? pace.first : pace.last) = now_seconds();
      return !stop.found();
    };
    sampler.run(request.prompt, sampling, each, together);
    if (turn.counts) give(stop.held());
    if (!lead && turn.counts) comm::send_text(ranks, std::move(text), 0);
    if (!lead) continue;
    show(request.behind);
    for (int other = 1; other < ranks.size() && rounds.turn(round, other).counts; ++other) {
      show(comm::receive_text(ranks, other));
      show(request.behind);
    }
  }
  return pace;
}

}  // namespace lockstep::train
