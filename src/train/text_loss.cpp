#include "train/text_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "data/loader.h"
#include "layout/rounds.h"
#include "model/decoder.h"
#include "train/evaluator.h"
#include "train/whole_logits.h"

namespace lockstep::train {
namespace {

/// Windows in a batch: about a thousand tokens.
std::int64_t samples_for(std::int64_t length, std::int64_t windows) {
  return std::clamp<std::int64_t>(1024 / length, 1, windows);
}

/// Reads a text's batches on one rank.
class TextReader {
 public:
  TextReader(const Inference& model, const data::TokenFile& file, const TextLossRequest& request, Runtime& runtime)
      : stream_(model.context().ops.stream()),
        length_(request.length),
        sampler_(data::whole_file_sampler(file, length_, request.stride)),
        samples_(samples_for(length_, sampler_.windows())),
        reader_(file, sampler_, samples_, length_, sampler_.windows()),
        decoder_(model.share(), {.texts = samples_, .positions = length_}, samples_ * length_),
        wants_logits_(request.logits),
        logits_(model.context().dims, *model.context().boundaries.head, model.context().config.vocabulary, samples_ * length_) {
    const Shape rows{samples_ * length_};
    reader_.declare(text_);
    workspace_.declare(tokens_, "tokens", rows, DType::i32);
    workspace_.declare(targets_, "targets", rows, DType::i32);
    workspace_.declare(loss_, "loss", Shape{1}, DType::f64);
    decoder_.declare(workspace_, cache_);
    // Pipelines send their logits to the rank with the first stage.
    if (wants_logits_ && (decoder_.has_head() || model.groups().at().pp == 0)) logits_.declare(workspace_);
    for (std::int64_t s = 0; s < samples_; ++s) texts_.push_back({.first = s * length_, .rows = length_, .text = s});
    Ledger ledger;
    workspace_.commit(runtime, ledger);
    cache_.commit(runtime, ledger);
    text_.commit(runtime.memory(Space::pinned), ledger);
  }

  std::int64_t batches() const { return reader_.batches(); }
  /// The windows of a batch; the last may have less.
  std::int64_t windows(std::int64_t batch) const { return std::min(samples_, sampler_.windows() - batch * samples_); }
  /// Windows up to the batch, and in it.
  std::int64_t windows_until(std::int64_t batch) const { return batch * samples_ + windows(batch); }
  /// A batch's logits [tokens of its windows, V], on the host: those of the batch that was read, or room for another's.
  Tensor logits(std::int64_t batch) const { return logits_.host(windows(batch) * length_); }

  /// Reads a batch. Returns the number of its targets and, where the head is, the sum of its token losses. Makes the batch's
  /// logits, too, where they are asked for. Collective over the pipeline's ranks.
  TextLoss read(std::int64_t index) {
    const data::Batch& batch = reader_.read(index);
    copy(stream_, tokens_, batch.tokens);
    copy(stream_, targets_, batch.targets);
    const Tensor x = decoder_.read(tokens_, texts_);
    if (!decoder_.has_head()) return {0, batch.target_count};
    elements<double>(loss_.host)[0] = 0;
    upload(stream_, loss_);
    decoder_.decoder().loss(x, {targets_, loss_.device});
    download(stream_, loss_);
    if (wants_logits_) {
      const std::int64_t rows = windows(index) * length_;
      decoder_.decoder().logits(logits_.own(rows), x.slice_rows(0, rows));
      static_cast<void>(logits_.bring(stream_, rows));
    }
    return {elements<double>(loss_.host)[0], batch.target_count};
  }

 private:
  Stream& stream_;
  std::int64_t length_;
  data::Sampler sampler_;
  std::int64_t samples_;
  data::WindowReader reader_;
  StagedDecoder decoder_;
  std::vector<ops::CachedText> texts_;  ///< of a batch
  Arena workspace_{"eval", MemoryKind::workspace}, cache_{"eval_cache", MemoryKind::workspace},
      text_{"eval_text", MemoryKind::data};
  Tensor tokens_, targets_;
  bool wants_logits_;
  WholeLogits logits_;
  Mirror loss_;
};

/// Brings logits from the ranks with the head to the first stage of the first replica, which gives them to the request. Does
/// nothing where no logits are asked for.
class LogitRoute {
 public:
  LogitRoute(const Inference& model, const TextReader& reader, const TextLossRequest& request)
      : reader_(reader),
        request_(request),
        replicas_(model.groups().data()),
        pipeline_(model.groups().pipeline()),
        head_(model.share().links.head),
        takes_(model.groups().at().pp == 0),
        has_head_(model.share().chunks.back().head) {}

  /// Sends the logits of a batch that another replica than the first has read.
  void send(std::int64_t batch) const {
    if (request_.logits && has_head_) replicas_.host().send(reader_.logits(batch), 0).wait();
  }
  void receive(std::int64_t batch, int replica) const {
    if (request_.logits && has_head_) replicas_.host().receive(reader_.logits(batch), replica).wait();
    take(batch);
  }
  /// Gives a batch's logits, which the first replica has, to the request.
  void take(std::int64_t batch) const {
    if (!request_.logits || (!takes_ && !has_head_)) return;
    const Tensor logits = reader_.logits(batch);
    if (!takes_) return pipeline_.host().send(logits, 0).wait();
    if (!has_head_) pipeline_.host().receive(logits, head_).wait();
    if (request_.take_logits) request_.take_logits(logits);
  }

 private:
  const TextReader& reader_;
  const TextLossRequest& request_;
  comm::Communicator &replicas_, &pipeline_;
  int head_;
  bool takes_, has_head_;
};

void demand_finite(double loss, const data::TokenFile& file) {
  if (std::isfinite(loss)) return;
  throw UserError(fmt::format("the loss on {} is not finite: the model computes numbers beyond those of its type", file.path()),
                  "read it with --dtype fp32, or take another checkpoint: --checkpoint");
}

}  // namespace

TextLoss loss_of_text(const Inference& model, const data::TokenFile& file, const TextLossRequest& request, Runtime& runtime) {
  TextReader reader(model, file, request, runtime);
  comm::Communicator& ranks = model.groups().data();
  const layout::Rounds rounds{reader.batches(), ranks.size()};
  // By batch, 0 on the ranks that did not read it. Losses are added over ranks, then in the order of batches.
  std::vector<double> losses(static_cast<std::size_t>(reader.batches()));
  TextLoss result;
  const LogitRoute route(model, reader, request);
  for (std::int64_t round = 0; round < rounds.count(); ++round) {
    const auto [mine, counts] = rounds.turn(round, ranks.rank());
    const TextLoss read = reader.read(mine);
    if (counts) {
      losses[static_cast<std::size_t>(mine)] = read.loss;
      result.tokens += read.tokens;
    }
    if (ranks.rank() > 0) {
      if (counts) route.send(mine);
      continue;
    }
    route.take(mine);
    std::int64_t last = mine;
    for (int other = 1; other < ranks.size(); ++other) {
      const auto [batch, others] = rounds.turn(round, other);
      if (!others) break;
      last = batch;
      route.receive(batch, other);
    }
    if (request.have_windows) request.have_windows(reader.windows_until(last));
  }
  for (comm::Communicator* group : {&ranks, &model.groups().pipeline()})  // 0 but where the head is
    group->host().all_reduce(view(std::span(losses), Shape{std::ssize(losses)}), comm::Reduction::sum).wait();
  ranks.host().all_reduce(view(std::span(&result.tokens, 1), Shape{1}), comm::Reduction::sum).wait();
  demand_targets(result.tokens, file, "give a text of which something is taught: --data, --split or --tokens");
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(result.tokens);
  demand_finite(result.loss, file);
  return result;
}

}  // namespace lockstep::train
