#include "lab/data_loading/bench_io.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/median.h"
#include "base/timer.h"
#include "base/units.h"
#include "comm/agreement.h"
#include "comm/mpi/library.h"
#include "comm/text.h"
#include "data/scattered_loader.h"
#include "device/memory.h"
#include "io/file.h"
#include "io/page_cache.h"
#include "lab/machine.h"
#include "tensor/arena.h"

namespace lockstep::lab {
namespace {

constexpr data::TokenFormat ids_format{.token_bytes = 2, .vocabulary = 50304};
constexpr std::int64_t piece_bytes = 4LL << 20;

/// A file of token ids that is removed with the object; rank 0 writes it.
class TokensOnDisk {
 public:
  TokensOnDisk(comm::Communicator& world, const IoBenchOptions& options) : world_(world) {
    path_ = comm::lead_text(world, (options.folder / fmt::format("lockstep-bench-io-{}.bin", ::getpid())).string());
    comm::together(world, [&] {
      if (world.rank() == 0) write(options.bytes);
    });
  }
  TokensOnDisk(const TokensOnDisk&) = delete;
  TokensOnDisk& operator=(const TokensOnDisk&) = delete;
  ~TokensOnDisk() {
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove(path_, ignored);
  }
  const io::Path& path() const { return path_; }
  /// Drops the file from the page cache before any rank returns. Collective.
  void forget() const {
    comm::together(world_, [&] {
      if (world_.rank() == 0) io::drop_cached(path_);
    });
  }

 private:
  void write(std::int64_t bytes) const {
    std::vector<std::uint16_t> ids(piece_bytes / 2);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint16_t>(i * 7919 % 50304);
    io::File file = io::File::create(path_);
    for (std::int64_t at = 0; at < bytes; at += piece_bytes)
      file.write_at(static_cast<std::uint64_t>(at),
                    std::as_bytes(std::span(ids)).first(static_cast<std::size_t>(std::min(piece_bytes, bytes - at))));
    file.sync();
    file.close();
  }

  comm::Communicator& world_;
  io::Path path_;
};

class IoBench {
 public:
  IoBench(const IoBenchOptions& options, comm::Communicator& world) : options_(options), world_(world), tokens_(world, options) {}

  std::vector<IoRow> rows() {
    std::vector<IoRow> rows;
    for (const std::string& way : options_.ways) rows.push_back({way, world_.size(), 0, {}, {}});
    for (int round = 0; round < options_.rounds; ++round) {
      for (IoRow& row : rows) {
        tokens_.forget();
        row.seconds.push_back(slowest_of(batches(row), world_));
        tokens_.forget();
        row.raw.push_back(slowest_of(plain(row.bytes), world_));
      }
    }
    return rows;
  }

 private:
  data::TokenFile open(const std::string& way) const {
    std::unique_ptr<io::ByteSource> bytes;
    if (way == "mpi") {
      bytes = comm::open_mpi_file(tokens_.path());
    } else {
      bytes = std::make_unique<io::FileBytes>(tokens_.path());
    }
    return {tokens_.path().string(), ids_format, std::move(bytes)};
  }
  /// Seconds of this rank's batches of one pass.
  double batches(IoRow& row) {
    const data::TokenFile file = open(row.way);
    const data::LoaderShape shape{
        .samples = options_.samples, .positions = options_.positions, .rank = world_.rank(), .ranks = world_.size()};
    const data::Sampler sampler({.order = data::Order::partition,
                                 .name = data::training_sequence(data::Order::partition),
                                 .tokens = file.tokens(),
                                 .positions = options_.positions,
                                 .global_batch = shape.global_batch()});
    Ledger ledger;
    Arena arena("bench io", MemoryKind::data);  // outlives the source, which has a step under way at the end
    std::unique_ptr<comm::Communicator> group;
    std::unique_ptr<data::BatchSource> source;
    if (row.way == "readers") {
      group = world_.split(world_.rank() / (world_.size() / options_.readers), world_.rank());
      source = std::make_unique<data::ScatteredLoader>(file, sampler, shape, *group, options_.workers);
    } else {
      source = std::make_unique<data::Loader>(file, sampler, shape, row.way == "mpi" ? 0 : options_.workers);
    }
    source->declare(arena);
    arena.commit(host_memory(), ledger);
    const std::int64_t steps = sampler.steps_per_epoch();
    row.bytes = steps * shape.global_batch() * options_.positions * ids_format.token_bytes;
    world_.barrier();
    const double start = now_seconds();
    source->start(0, 0);
    for (std::int64_t step = 0; step < steps; ++step) source->next();
    return now_seconds() - start;
  }
  /// Seconds of this rank's part of as many bytes, in order and in large pieces.
  double plain(std::int64_t bytes) const {
    std::vector<std::byte> to(static_cast<std::size_t>(piece_bytes));
    const std::int64_t first = bytes * world_.rank() / world_.size(), end = bytes * (world_.rank() + 1) / world_.size();
    const io::File file = io::File::open_to_read(tokens_.path());
    world_.barrier();
    const double start = now_seconds();
    for (std::int64_t at = first; at < end; at += piece_bytes)
      file.read_at(static_cast<std::uint64_t>(at),
                   std::span(to).first(static_cast<std::size_t>(std::min(piece_bytes, end - at))));
    return now_seconds() - start;
  }

  const IoBenchOptions& options_;
  comm::Communicator& world_;
  TokensOnDisk tokens_;
};

}  // namespace

double IoRow::rate() const { return 1e-9 * static_cast<double>(bytes) / median_of(seconds); }

double IoRow::share() const {
  std::vector<double> shares;
  for (std::size_t round = 0; round < seconds.size(); ++round) shares.push_back(raw[round] / seconds[round]);
  return median_of(shares);
}

std::vector<Problem> check(const IoBenchOptions& options, int ranks) {
  std::vector<Problem> problems;
  const auto demand = [&](bool holds, std::string message, std::string remedy) {
    if (!holds) problems.push_back({std::move(message), std::move(remedy)});
  };
  const std::int64_t step = options.samples * options.positions * ranks * ids_format.token_bytes;
  demand(options.bytes % ids_format.token_bytes == 0 && options.bytes >= step + 2 && options.bytes <= (1LL << 50),
         fmt::format("--bytes {}: must be even, and hold a batch of {} ranks ({} bytes) and a token", options.bytes, ranks, step),
         "--bytes 256MiB");
  demand(options.readers >= 1 && ranks % std::max(options.readers, 1) == 0,
         fmt::format("--readers {}: {} ranks do not divide by it", options.readers, ranks), "--readers 1");
  return problems;
}

std::vector<IoRow> bench_io(const IoBenchOptions& options, comm::Communicator& world) {
  if (auto problems = check(options, world.size()); !problems.empty()) throw UserError(std::move(problems));
  return IoBench(options, world).rows();
}

Answer answer_of(const IoBenchOptions& options, const std::vector<IoRow>& rows) {
  Answer answer;
  answer.facts({{"file_bytes", options.bytes},
                {"batch", options.samples},
                {"positions", options.positions},
                {"readers", options.readers},
                {"workers", options.workers}});
  answer.say(fmt::format("a file of {}, batches of {} x {} tokens a rank, {} rounds, nothing cached before\n\n",
                         format_bytes(static_cast<std::uint64_t>(options.bytes)), options.samples, options.positions,
                         options.rounds));
  Table table({{"io", "data.io"},
               {"ranks", "ranks"},
               {"bytes", "", ""},
               {"seconds", "seconds", "{:.3f}"},
               {"raw_seconds", "", ""},
               {"gbps", "GB/s", "{:.3f}"},
               {"", "raw GB/s", "{:.3f}"},
               {"of_raw", "of raw", "{:.0f} %", 100}});
  for (const IoRow& row : rows)
    table.row({row.way, row.ranks, row.bytes, median_of(row.seconds), median_of(row.raw), row.rate(),
               1e-9 * static_cast<double>(row.bytes) / median_of(row.raw), row.share()});
  answer.table("rows", table);
  answer.say("\nraw: the same bytes in order, each rank its part in pieces of 4 MiB; of raw: in the same round\n");
  return answer;
}

}  // namespace lockstep::lab
