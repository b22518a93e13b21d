#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <stop_token>
#include <thread>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/serve/api.h"
#include "app/serve/text_engine.h"
#include "app/settings/foreign/other_words.h"
#include "base/text/trimmed.h"
#include "base/units.h"
#include "io/file.h"
#include "io/sha256.h"
#include "train/stop_signal.h"

namespace lockstep::app {
namespace {

struct ServeOptions {
  ModelOptions from;
  TextEngineOptions engine{.name = {}, .chat_template = {}, .texts = 8};
  std::string address = "127.0.0.1", key_file;
  std::int64_t port = 8000, waiting = 64, connections = 64;
};

bool parse(const Arguments& arguments, ServeOptions& options) {
  CommandLine line("serve", "Answer requests for text, as OpenAI's API does, with a trained model.");
  options.from.declare(line, "the requests");
  line.option("--host", options.address, "ADDRESS", "where to listen; 0.0.0.0: at every address of this machine");
  line.option("--port", options.port, "N", "0: any that is free", 65535);
  line.option("--api-key-file", options.key_file, "FILE", "a key in each line; a request must name one of them");
  line.option("--name", options.engine.name, "NAME", "the model's name in requests; else that of its folder");
  line.option("--chat-template", options.engine.chat_template, "TEMPLATE",
              "a file, a folder, or one of chatml, llama3, zephyr; else the model's own");
  line.option("--context", options.engine.context, "N", "tokens of a prompt and its answer, at most; no more than the model's");
  line.option("--texts", options.engine.texts, "N", "texts that are written side by side", 1024);
  line.option("--waiting", options.waiting, "N", "texts that may wait for a place; more are refused (429)");
  line.option("--connections", options.connections, "N", "connections at a time; as many wait, and more are refused (503)", 4096);
  line.option("--cache", options.engine.cache, "TOKENS",
              "that keys and values are kept of; 0: a quarter of --texts times --context, and at least --context");
  line.undeclared(other_words(WordsOf::generate));
  line.daily({"--host", "--port", "--api-key-file", "--chat-template", "--context", "--texts", "--adapter", "--dtype"});
  line.note("An answer's text is a function of the model, the request and its seed: it does not depend on what else is asked.");
  line.note(
      "examples:\n  lockstep serve runs/first --port 8000\n  lockstep serve models/qwen --adapter runs/chat/adapter "
      "--api-key-file keys");
  if (!line.parse(arguments)) return false;
  std::vector<Problem> problems;
  const auto require = [&](bool holds, std::string message, std::string remedy) {
    if (!holds) problems.push_back({std::move(message), std::move(remedy)});
  };
  require(options.port >= 0, fmt::format("--port {}: must be from 0 to 65535", options.port), "--port 8000");
  require(options.engine.texts >= 1, fmt::format("--texts {}: must be at least 1", options.engine.texts), "--texts 8");
  require(options.waiting >= 0, fmt::format("--waiting {}: must not be negative", options.waiting), "--waiting 64");
  require(options.connections >= 1, fmt::format("--connections {}: must be at least 1", options.connections), "--connections 64");
  require(options.engine.context >= 2,
          fmt::format("--context {}: must be at least 2: a token of a prompt and one of its answer", options.engine.context),
          "--context 4096");
  require(options.engine.cache == 0 || options.engine.cache >= ops::page_keys,
          fmt::format("--cache {}: must be 0 or at least {}, a page", options.engine.cache, ops::page_keys), "--cache 0");
  options.from.read(problems);
  require(options.from.layout.ranks_to_start() == 1, "serve has one rank, whose threads share the work",
          "leave out --ranks and --layout; --threads N says how many threads");
  if (!problems.empty()) throw UserError(std::move(problems));
  return true;
}

std::vector<std::string> keys_of(const std::string& file) {
  std::vector<std::string> keys;
  if (file.empty()) return keys;
  constexpr std::uint64_t most_bytes = 1 << 20;
  std::istringstream lines(io::read_document(file, most_bytes));
  for (std::string line; std::getline(lines, line);) {
    if (const std::string_view key = trimmed(line); !key.empty()) keys.emplace_back(key);  // as fields of HTTP are
  }
  if (keys.empty()) throw UserError(fmt::format("--api-key-file {}: there is no key in it", file), "write a key into each line");
  return keys;
}

/// What decides the bits of answers beside the request.
std::string fingerprint_of(const ServeOptions& options, std::string_view isa) {
  const std::string facts = fmt::format("{}\n{}\n{}\n{}\n{}", options.from.model, options.from.checkpoint, options.from.adapter,
                                        options.from.dtype, isa);
  return "ls-" + io::sha256_of_text(facts).substr(0, 12);
}

void serve(const ServeOptions& options, Session& session) {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // what a large request took goes back to the system; malloc would keep it for others
  Log log(stderr, Level::warning);
  std::vector<std::string> keys = keys_of(options.key_file);
  TextEngine engine(options.from, options.engine, session, log);
  const ServedModel& model = engine.model();
  TextService service(engine.batch(), *model.tokenizer, options.waiting);
  Api api(model, service, std::move(keys), fingerprint_of(options, ops::name_of(session.isa())));
  const train::StopSignal signal;
  const auto server =
      io::http::open_server(options.address, static_cast<int>(options.port),
                            {.connections = options.connections, .waiting = options.connections, .busy_body = Api::busy()},
                            [&](const io::http::ServedRequest& request) { return api.answer(request); });
  fmt::print(stderr, "{} at http://{}/v1: {} texts of up to {} tokens side by side, {} of keys and values{}\n", model.name,
             io::http::place(options.address, server->port()), options.engine.texts, model.longest,
             format_bytes(engine.cache_bytes()), model.chat != nullptr ? "" : "; no chat template");
  const std::jthread watcher([&](const std::stop_token& ended) {
    while (!ended.stop_requested() && !signal.received()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server->stop();
  });
  // Connections end before the writing does: what was asked for is still answered.
  const std::jthread listener([&] {
    server->run();
    service.close();
  });
  try {
    service.run();
  } catch (...) {
    server->stop();
    throw;
  }
}

int run(const Arguments& arguments) {
  ServeOptions options;
  if (!parse(arguments, options)) return 0;
  run_on_ranks(options.from.ranks(), [&](Session& session) { serve(options, session); });
  return 0;
}

}  // namespace

Command serve_command() { return {"serve", "answer requests for text, as OpenAI's API does", run}; }

}  // namespace lockstep::app
