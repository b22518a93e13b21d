#include "app/start/references.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "app/start/run_text.h"
#include "arch/config_json.h"
#include "base/units.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "data/loader.h"
#include "io/sha256.h"
#include "layout/rounds.h"
#include "train/saving/weights_hash.h"

namespace lockstep::app {
namespace {

constexpr const char* references_format = "lockstep-references";
constexpr const char* begin_anew =
    "a run that begins anew makes them again: train.init_from=FOLDER with the weights it began with";

using LogProbabilities = std::vector<double>;

/// What a file of references is of.
struct Origin {
  std::string weights;  ///< hash_of_reference()
  Json data;            ///< data::fingerprint()
  io::Path file(const RunConfig& config) const {
    return io::Path(data_folder(config)) / fmt::format("references-{:.16}.json", io::sha256_of_text(weights + " " + data.dump()));
  }
};

/// A hash of the weights, the model and its type: equal weights are another reference with another adapter scale or angle.
std::string hash_of_reference(train::Engine& engine) {
  const train::EngineConfig& config = engine.config();
  return io::sha256_of_text(
      fmt::format("{} {} {}", train::hash_of_weights(engine), arch::to_json(config.model).dump(), name_of(config.weights.type)));
}

Json numbers_list(const LogProbabilities& numbers) { return Json::Array(numbers.begin(), numbers.end()); }

void read_numbers(const Json& file, std::string_view name, LogProbabilities& into) {
  const Json::Array& list = file.at(name).array();
  if (list.size() != into.size())
    throw UserError(fmt::format("\"{}\" has {} numbers, and the text {} windows", name, list.size(), into.size()), begin_anew);
  std::ranges::transform(list, into.begin(), [](const Json& number) { return number.number(); });
}

void read_references(const io::Path& path, const Origin& origin, const TrainingData::References& into) {
  try {
    const Json file = Json::parse(io::read_document(path));
    const bool same = file.at("format").string() == references_format && file.at("weights").string() == origin.weights &&
                      file.at("data").dump() == origin.data.dump();
    if (!same) throw UserError("it is of other weights or another text", begin_anew);
    read_numbers(file, "train", *into.train);
    read_numbers(file, "val", *into.val);
    if (file.at("sha256").string() != io::sha256_of_text(file.at("train").dump() + file.at("val").dump()))
      throw UserError("its numbers are not those that were measured", begin_anew);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", path.string(), error.problems().front().message),
                    fmt::format("remove it; {}", begin_anew));
  }
}

void write_references(const io::Path& path, const Origin& origin, const TrainingData::References& from) {
  const Json train = numbers_list(*from.train), val = numbers_list(*from.val);
  const Json file = Json::Object{{"format", references_format},
                                 {"weights", origin.weights},
                                 {"data", origin.data},
                                 {"sha256", io::sha256_of_text(train.dump() + val.dump())},
                                 {"train", train},
                                 {"val", val}};
  io::replace_file(path, file.dump() + "\n");
}

/// Measures each window of `file`; the ranks share them. Collective.
void measure_windows(train::Engine& engine, const data::TokenFile& file, Runtime& runtime, LogProbabilities& into) {
  const std::int64_t samples = engine.config().samples, positions = engine.config().positions;
  data::WindowReader windows(file, data::whole_file_sampler(file, positions), samples, positions, std::ssize(into));
  Arena arena("windows", MemoryKind::data);
  windows.declare(arena);
  Ledger ledger;
  arena.commit(runtime.memory(Space::pinned), ledger);
  const parallel::Groups& groups = engine.groups();
  const layout::Rounds rounds{windows.batches(), groups.data().size()};
  LogProbabilities own(static_cast<std::size_t>(samples));
  std::ranges::fill(into, 0.0);
  for (std::int64_t round = 0; round < rounds.count(); ++round) {
    const auto [i, counts] = rounds.turn(round, groups.data().rank());
    engine.log_probabilities(windows.read(i), own);
    const std::int64_t first = i * samples, count = std::min(samples, std::ssize(into) - first);
    if (counts) std::copy_n(own.begin(), count, into.begin() + first);
  }
  for (comm::Communicator* ranks : {&groups.replicas(), &groups.pipeline()})
    ranks->host().all_reduce(view(std::span(into), Shape{std::ssize(into)}), comm::Reduction::sum).wait();
}

/// Rank 0's numbers on all ranks.
void share_lead(comm::Communicator& ranks, LogProbabilities& numbers) {
  ranks.host().broadcast(view(std::span(numbers), Shape{std::ssize(numbers)}), 0).wait();
}

}  // namespace

Json bring_references(const RunConfig& config, const Start& start, const data::Corpus& corpus, const Json& identity,
                      const TrainingData& data, train::Engine& engine, Session& session, Log& log) {
  const TrainingData::References& into = data.references();
  if (!into.train) return {};
  comm::Communicator& ranks = engine.groups().all();
  engine.control().settle();
  Origin origin{.weights = start.resumes ? "" : hash_of_reference(engine), .data = {}};
  bool there = false;
  comm::together(ranks, [&] {
    if (!session.lead()) return;
    origin.data = identity.at("data");
    if (start.resumes) origin.weights = start.checkpoint->manifest.run.at("references").at("weights").string();
    const io::Path path = origin.file(config);
    there = io::exists(path);
    if (there) {
      read_references(path, origin, into);
      log.info(fmt::format("References: {}", path.string()));
    } else if (start.resumes) {
      throw UserError(fmt::format("{} is not there: it has the log-probabilities that the run compares with", path.string()),
                      begin_anew);
    } else {
      log.info(fmt::format("References: {} answers are read once with the weights that the run begins with, into {}",
                           format_count(std::ssize(*into.train) + std::ssize(*into.val)), path.string()));
    }
  });
  origin.weights = comm::lead_text(ranks, origin.weights);
  there = comm::lead_text(ranks, there ? "there" : "").size() > 0;
  if (there) {
    for (LogProbabilities* numbers : {into.train.get(), into.val.get()}) share_lead(ranks, *numbers);
  } else {
    measure_windows(engine, corpus.train, session.runtime(), *into.train);
    measure_windows(engine, corpus.val, session.runtime(), *into.val);
    comm::together(ranks, [&] {
      if (session.lead()) write_references(origin.file(config), origin, into);
    });
  }
  return Json::Object{{"weights", origin.weights}};
}

}  // namespace lockstep::app
