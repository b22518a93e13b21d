#include "app/start/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/settings/run_layout.h"
#include "app/start/packed_text.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "data/shards.h"

namespace lockstep::app {
namespace {

/// Where a rank that trains is among those that share the samples of a step, -1 of a server.
int place_in_data(const RunConfig& config, const Roles& roles, const Session& session) {
  if (roles.serves()) return -1;
  return layout::Mesh(layout_of(config, workers_of(config, session.world().size()))).coordinates(roles.group().rank()).dp;
}

/// Whether a rank opens the text: no server does, and with data.io=readers the first rank of those that share one.
bool opens_text(const RunConfig& config, int place, int places) {
  if (config.data.io != DataIo::readers) return place >= 0;
  return place >= 0 && place % std::max(1, places / static_cast<int>(config.data.readers)) == 0;
}

data::CorpusRequest request_of(const RunConfig& config) {
  return {.vocabulary = config.model.vocab_size, .ids = config.data.ids, .documents = config.data.documents};
}

Problem no_document_end(const RunConfig& config, const data::Corpus& corpus) {
  if (corpus.tokenizer == nullptr) {
    return {fmt::format("data.documents = true: nothing says which token ends every document of {}", data_folder(config)),
            "prepare its text with lockstep prepare, give Megatron's files with their .idx, made with --append-eod, or "
            "data.documents=false"};
  }
  return {fmt::format("data.documents = true: the vocabulary of {} has no token that ends a document", data_folder(config)),
          "prepare the text with a tokenizer that has an end-of-text token (lockstep prepare --tokenizer bpe:8192, say), or "
          "data.documents=false"};
}

}  // namespace

data::Corpus open_text(const RunConfig& config, const Roles& roles, Session& session, Log& log) {
  const io::Path folder = data_folder(config);
  const bool cut = config.data.shards == DataShards::precut;
  const int places = replicas_of(config, session.world().size());
  const int place = place_in_data(config, roles, session);
  std::optional<data::Corpus> corpus;
  std::string told;
  comm::together(session.world(), [&] {
    if (!opens_text(config, place, places)) return;
    data::CorpusRequest request = request_of(config);
    if (cut) request.train = data::demand_shard(folder, place, places);
    corpus.emplace(data::open_corpus(folder, request, log));
    std::vector<const data::TokenFile*> files;
    if (session.lead() || cut) files.push_back(&corpus->train);
    if (session.lead()) files.push_back(&corpus->val);
    data::verify_corpus(folder, files, log);
    if (session.lead()) told = data::tell_corpus(folder, *corpus);
  });
  told = comm::lead_text(session.world(), std::move(told));
  return corpus ? std::move(*corpus) : data::told_corpus(folder, told);
}

TextFacts text_facts(const RunConfig& config, const data::Corpus& corpus, std::vector<Problem>& problems) {
  TextFacts text{.vocabulary = corpus.vocabulary()};
  if (config.data.documents) {
    text.document_end = corpus.tokenizer ? corpus.tokenizer->end_of_text() : corpus.document_end;
    if (corpus.packing) text.document_end = corpus.packing->separator;
    if (!text.document_end) problems.push_back(no_document_end(config, corpus));
  }
  std::ranges::move(check_text(config, corpus), std::back_inserter(problems));
  return text;
}

std::vector<Problem> check_prepared_text(const RunConfig& config) {
  const io::Path folder = data_folder(config);
  std::vector<Problem> problems;
  if (config.data.shards == DataShards::precut || !io::exists(folder / "train.bin")) return problems;
  try {
    Log quiet(stderr, Level::critical);
    text_facts(config, data::open_corpus(folder, request_of(config), quiet), problems);
  } catch (const UserError& error) {
    problems = error.problems();
  }
  return problems;
}

}  // namespace lockstep::app
