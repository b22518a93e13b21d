#include "app/demo/demo_training.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>
#include <utility>

#include "app/demo/demo_text.h"
#include "app/settings/run_config.h"
#include "app/start/assemble.h"
#include "app/start/resolve.h"
#include "app/start/training_data.h"
#include "app/train/train.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/timer.h"
#include "checkpoint/find.h"
#include "checkpoint/reader.h"
#include "data/prepare/dataset.h"
#include "device/memory.h"
#include "io/sha256.h"
#include "layout/plan_fields.h"

namespace lockstep::app {
namespace {

constexpr std::uint64_t text_seed = 1337;
constexpr std::size_t text_bytes = 256 << 10;

// A Llama with dropout: what has rotary positions, gates, shared keys and values, random masks and a clipped gradient goes
// through every function of ours.
constexpr std::string_view demo_settings =
    "model.n_layer=4 model.n_head=8 model.n_kv_head=4 model.n_embd=128 model.block_size=64 model.norm=rmsnorm "
    "model.position=rope "
    "model.activation=swiglu model.dropout=0.1 model.tied=false optimizer.learning_rate=2e-3 optimizer.min_lr=2e-4 "
    "optimizer.schedule=nanogpt optimizer.lr_decay_iters=200 optimizer.grad_clip=1.0 train.warmup_iters=20 train.log_interval=1 "
    "train.eval_iters=4 sample.tokens=0 log.name=demo";

constexpr std::string_view drawn_layouts =
    "dp=2;dp=4;tp=2;tp=4;cp=2;pp=2;pp=4;dp=2,tp=2;dp=2,pp=2;dp=2,zero=3;dp=4,zero=2;dp=2,gas=2,recompute=full;"
    "dp=2,tp=2,sequence,zero=1;pp=2:zb-h1,gas=4;cp=2,context=ulysses;tp=2,pp=2";

constexpr lab::LayoutDefaults layout_defaults = lab::bench_defaults;

/// Those of fields that differ from one rank's.
std::vector<std::string> settings_of(const lab::Layout& layout, const io::Path& folder) {
  layout::PlanWish wish = layout::wish_of(layout.plan);
  wish.parallel.bucket_bytes = layout.gradients.bucket_bytes;
  wish.parallel.overlap = layout.gradients.overlap;
  wish.canonical = true;
  std::vector<std::string> words;
  for (const layout::FieldRow& row : layout::plan_fields()) {
    const Json value = row.value.get(wish);
    if (value.is_null() || value.dump() == row.value.get({}).dump()) continue;
    words.push_back(fmt::format("{}={}", row.setting, value.is_string() ? value.string() : value.dump()));
    if (words.back().ends_with("=nvme")) words.push_back("memory.nvme_path=" + folder.string());
  }
  return words;
}

io::Path data_folder_of(const io::Path& run) { return run.parent_path() / "data"; }

/// What the run's metrics have of steps: how many, and the first and the last loss. `read`: how many bytes there were before.
void read_steps(const io::Path& run, std::uintmax_t& read, DemoOutcome& outcome) {
  std::error_code missing;
  const io::Path file = run / "metrics.jsonl";
  const std::uintmax_t bytes = std::filesystem::file_size(file, missing);
  if (missing || std::exchange(read, bytes) == bytes) return;
  const std::string text = io::read_file(file);
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));  // the last one may not be whole yet
  bool first = true;
  for (std::string line; std::getline(lines, line);) {
    const Json step = Json::parse(line);
    const Json* loss = step.find("eval") == nullptr ? step.find("loss") : nullptr;
    if (loss == nullptr || !loss->is_number()) continue;
    if (std::exchange(first, false)) outcome.first_loss = loss->number();
    outcome.last_loss = loss->number();
    outcome.steps = step.at("step").integer();
  }
}

/// Becomes the training, in a process that has nothing else; its words go to `log`.
[[noreturn]] void be_training(const DemoTraining& training, const io::Path& log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0 || dup2(nothing, STDIN_FILENO) < 0)
    _exit(kSystemError);
  const Command command{"train", "", [&](const Arguments& words) { return train(words, training.around); }, true};
  std::vector<std::string> words = train_words(training);
  const int code = run_program(std::span(&command, 1), std::move(words));
  std::fflush(stdout);
  _exit(code);
}

/// The end of what a training said.
std::string end_of_log(const io::Path& log) {
  const std::string text = io::read_file(log);
  const std::size_t begin = text.rfind("lockstep: ");
  return begin == std::string::npos ? text.substr(text.size() - std::min<std::size_t>(text.size(), 400)) : text.substr(begin);
}

int end_of_child(pid_t child, int options) {
  int status = 0;
  pid_t found = 0;
  do {
    found = waitpid(child, &status, options);
  } while (found < 0 && errno == EINTR);
  if (found == 0) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A Ctrl-C is for the training, which saves and leaves.
class WithoutInterrupts {
 public:
  WithoutInterrupts() : before_(std::signal(SIGINT, SIG_IGN)) {}
  ~WithoutInterrupts() { std::signal(SIGINT, before_); }
  WithoutInterrupts(const WithoutInterrupts&) = delete;
  WithoutInterrupts& operator=(const WithoutInterrupts&) = delete;

 private:
  void (*before_)(int);
};

}  // namespace

std::optional<lab::Layout> demo_layout(const std::string& words, std::vector<Problem>& problems) {
  constexpr int ranks_at_most = 16, most_parts = 8;
  std::optional<lab::Layout> layout = lab::layout_from(words, problems, layout_defaults);
  if (!layout) return std::nullopt;
  layout->plan.canonical = true;  // for what check() says of it
  const std::size_t before = problems.size();
  if (layout->documents || layout->moments) {
    problems.push_back({fmt::format("--layout {}: documents and moments change what is learned", words),
                        "leave them out: what remains is how ranks share the work"});
  }
  if (layout->plan.ranks() > ranks_at_most) {
    problems.push_back({fmt::format("--layout {}: {} ranks, each a thread of this machine", words, layout->plan.ranks()),
                        fmt::format("choose at most {}", ranks_at_most)});
  }
  if (const int parts = layout->microbatches(); most_parts % parts != 0) {
    problems.push_back(
        {fmt::format("--layout {}: a step has {} samples, which {} micro-batches divide", words, demo_samples, parts),
         "choose dp x gas as 1, 2, 4 or 8"});
  }
  if (problems.size() == before) {
    const layout::PlanLimits limits = demo_verify_model(*layout).limits();
    for (Problem& problem : check(*layout, limits, layout->plan.ranks(), layout_defaults)) problems.push_back(std::move(problem));
  }
  return problems.size() == before ? layout : std::nullopt;
}

std::string drawn_layout(std::uint64_t number) {
  const std::vector<std::string> all = parts_of_list(drawn_layouts, ';');
  return all[number % all.size()];
}

lab::VerifyModel demo_verify_model(const lab::Layout& layout) {
  constexpr std::int64_t vocabulary = 32;  // characters of the text, or more
  settings::Sources sources;
  sources.overrides = parts_of_list(demo_settings, ' ');
  const train::EngineConfig config = assemble(settings::resolve(sources).config, {.vocabulary = vocabulary}, {});
  return {.name = "demo",
          .config = config.model,
          .weights = config.weights,
          .optimizer = config.optimizer,
          .grad_clip = config.grad_clip,
          .samples = demo_samples / layout.microbatches(),
          .positions = config.positions};
}

void prepare_demo(const io::Path& folder) {
  const io::Path text = folder / "text.txt";
  io::replace_file(text, demo_text(text_seed, text_bytes));
  Log log(stdout, Level::critical);
  data::ensure_dataset({.name = "demo", .folder = folder / "data", .file = text.string()}, log);
}

std::vector<std::string> train_words(const DemoTraining& training) {
  std::vector<std::string> words = parts_of_list(demo_settings, ' ');
  words.insert(words.begin(), "train");
  const std::vector<std::string> own{"data.dir=" + data_folder_of(training.folder).string(),
                                     "log.dir=" + training.folder.string(),
                                     "train.init_from=auto",
                                     fmt::format("train.max_iters={}", training.length.steps),
                                     fmt::format("train.eval_interval={}", training.length.steps),
                                     fmt::format("checkpoint.interval={}", training.length.save_interval),
                                     fmt::format("model.batch_size={}", demo_samples / training.layout.microbatches()),
                                     fmt::format("numerics.isa={}", ops::name_of(training.isa))};
  words.insert(words.end(), own.begin(), own.end());
  const std::vector<std::string> shared = settings_of(training.layout, training.folder.parent_path());
  words.insert(words.end(), shared.begin(), shared.end());
  if (const int ranks = training.layout.plan.ranks(); ranks > 1) words.push_back(fmt::format("--ranks={}", ranks));
  return words;
}

DemoOutcome train_demo(const DemoTraining& training, std::optional<std::int64_t> kill_at,
                       const std::function<void(std::int64_t step, double loss)>& told) {
  constexpr auto look_every = std::chrono::milliseconds(2);
  const io::Path log = training.folder.string() + ".log";
  const double begun = now_seconds();
  std::fflush(nullptr);  // what is not written yet would be written by the child too
  const pid_t child = fork();
  if (child < 0) throw SystemError(fmt::format("cannot start a training: {}", std::strerror(errno)));
  if (child == 0) be_training(training, log);
  const WithoutInterrupts guard;
  DemoOutcome outcome;
  outcome.code = -1;
  std::uintmax_t read = 0;
  for (std::int64_t before = -1; outcome.code < 0; before = outcome.steps) {
    std::this_thread::sleep_for(look_every);
    outcome.code = end_of_child(child, WNOHANG);
    read_steps(training.folder, read, outcome);
    if (outcome.steps > 0 && outcome.steps != before) told(outcome.steps, outcome.last_loss);
    if (outcome.code < 0 && kill_at && outcome.steps >= *kill_at) {
      kill(child, SIGKILL);
      outcome.code = end_of_child(child, 0);
    }
  }
  if (outcome.code != 0 && outcome.code < 128) outcome.last_words = end_of_log(log);
  outcome.seconds = now_seconds() - begun;
  return outcome;
}

std::string demo_hash(const io::Path& run) {
  const checkpoint::Reader reader(checkpoint::choose_checkpoint(run, "last").folder);
  std::vector<const checkpoint::StoredTensor*> weights;
  for (const checkpoint::StoredTensor& stored : reader.manifest().tensors)
    if (stored.file == checkpoint::model_file) weights.push_back(&stored);
  std::ranges::sort(weights, {}, [](const auto* stored) { return stored->tensor.name; });
  io::Sha256 hash;
  for (const checkpoint::StoredTensor* stored : weights) {
    const std::string& name = stored->tensor.name;
    std::vector<float> values(static_cast<std::size_t>(stored->tensor.shape.elements()));
    const std::uint64_t sum = reader.read_range(name, {.values = view(std::span(values), Shape{std::ssize(values)})});
    if (sum != stored->checksum) throw UserError(fmt::format("{}: {} is damaged", reader.folder().string(), name), "train again");
    hash.update(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
    hash.update(std::as_bytes(std::span(values)));
  }
  return hash.hex();
}

}  // namespace lockstep::app
