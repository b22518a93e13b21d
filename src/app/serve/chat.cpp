// A conversation in the terminal.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/cli/day.h"
#include "app/sampling_options.h"
#include "app/serve/text_engine.h"
#include "app/serve/text_service.h"
#include "app/settings/foreign/other_words.h"
#include "base/terminal.h"
#include "base/text/utf8.h"
#include "data/chat/message.h"
#include "io/file.h"
#include "train/texts/stop_texts.h"

namespace lockstep::app {
namespace {

struct ChatOptions {
  ModelOptions from;
  TextEngineOptions engine{.name = {}, .chat_template = {}};
  std::string system;
  SamplingOptions sampling;
  std::int64_t tokens = 1024;
};

constexpr const char* commands =
    "/system TEXT   begin again, with another system message\n"
    "/retry         another answer to the last message\n"
    "/save FILE     write the conversation as JSON\n"
    "/quit          or the end of the input\n"
    "A line that ends with a backslash goes on in the next one. Ctrl-C ends an answer.\n";

bool parse(const Arguments& arguments, ChatOptions& options) {
  CommandLine line("chat", "Talk with a trained model: a line is a message. Messages may also come from a pipe.");
  options.from.declare(line, "the conversation");
  line.option("--system", options.system, "TEXT", "what the model is told before all messages");
  line.option("--chat-template", options.engine.chat_template, "TEMPLATE",
              "a file, a folder, or one of chatml, llama3, zephyr; else the model's own");
  line.option("--context", options.engine.context, "N", "tokens of the whole conversation, at most; no more than the model's");
  line.option("--tokens", options.tokens, "N", "at most so many tokens an answer");
  options.sampling.declare(line, "the same seed and messages give the same answers");
  line.undeclared(other_words(WordsOf::generate));
  line.daily({"--system", "--chat-template", "--tokens", "--temperature", "--adapter"});
  line.note(std::string("In the conversation:\n") + commands);
  line.note("example:\n  lockstep chat models/qwen --system \"Answer in one sentence.\"");
  if (!line.parse(arguments)) return false;
  std::vector<Problem> problems;
  const auto require = [&](bool holds, std::string message, std::string remedy) {
    if (!holds) problems.push_back({std::move(message), std::move(remedy)});
  };
  require(options.engine.context >= 2, fmt::format("--context {}: must be at least 2", options.engine.context), "--context 4096");
  require(options.tokens >= 1, fmt::format("--tokens {}: must be at least 1", options.tokens), "--tokens 1024");
  options.sampling.check(problems);
  options.from.read(problems);
  require(options.from.layout.ranks_to_start() == 1, "chat has one rank, whose threads share the work",
          "leave out --ranks and --layout; --threads N says how many threads");
  if (!problems.empty()) throw UserError(std::move(problems));
  return true;
}

/// While it lives, SIGINT is remembered, and ends a read that waits.
class Interrupt {
 public:
  Interrupt() {
    came_ = false;
    struct sigaction action{};
    action.sa_handler = [](int) { came_ = true; };
    sigaction(SIGINT, &action, &before_);
  }
  ~Interrupt() { sigaction(SIGINT, &before_, nullptr); }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  static bool taken() { return came_.exchange(false); }

 private:
  static inline std::atomic<bool> came_ = false;
  struct sigaction before_{};
};

void put(std::string_view text) {
  if (!say(stdout, text)) throw SystemError(fmt::format("the output cannot be written: {}", std::strerror(errno)));
  std::fflush(stdout);
}

class Chat {
 public:
  Chat(const ChatOptions& options, TextEngine& engine, Log& log)
      : options_(options),
        engine_(engine),
        sampling_(options.sampling.sampling(engine.model().habits, log)),
        prompts_(is_terminal(stdin)) {
    if (engine.model().chat == nullptr) {
      throw UserError(fmt::format("{} has no chat template", options.from.model),
                      "name one: --chat-template chatml (or a file); `lockstep generate` continues a text without one");
    }
    begin(options.system);
  }

  void run() {
    const Interrupt interrupt;
    if (prompts_) fmt::print(stderr, "{}; /help lists the commands\n", engine_.model().name);
    while (const std::optional<std::string> message = next_message()) {
      if (message->starts_with('/')) {
        if (!obey(*message)) return;
      } else if (!message->empty()) {
        say_to_model(*message);
      }
    }
    if (prompts_) put("\n");
  }

 private:
  void begin(const std::string& system) {
    messages_.clear();
    if (!system.empty()) add("system", system);
  }
  void add(const char* role, std::string text) {
    messages_.push_back(Json::Object{{"role", role}, {"content", std::move(text)}});
  }

  /// Nothing: there will be no more.
  std::optional<std::string> next_message() const {
    std::string message;
    for (std::string line;;) {
      if (prompts_) fmt::print(stderr, "{} ", message.empty() ? ">" : ".");
      if (!std::getline(std::cin, line)) return {};
      if (line.ends_with('\r')) line.pop_back();
      const bool goes_on = line.ends_with('\\');
      if (goes_on) line.back() = '\n';
      message += line;
      if (!goes_on) return message;
    }
  }

  /// False: the conversation is over.
  bool obey(const std::string& line) {
    const std::size_t blank = line.find(' ');
    const std::string word = line.substr(0, blank),
                      rest = blank == std::string::npos ? "" : line.substr(line.find_first_not_of(' ', blank));
    if (word == "/quit" || word == "/exit") return false;
    if (word == "/system") {
      begin(rest);
      fmt::print(stderr, "the conversation begins again\n");
    } else if (word == "/retry") {
      retry();
    } else if (word == "/save" && !rest.empty()) {
      save(rest);
    } else {
      fmt::print(stderr, "{}", commands);
    }
    return true;
  }

  void retry() {
    while (!messages_.empty() && data::is_assistant(messages_.back())) messages_.pop_back();
    if (messages_.empty() || messages_.back().at("role").string() != "user") {
      fmt::print(stderr, "there is no message yet\n");
      return;
    }
    ++tries_;
    answer();
  }

  void save(const std::string& file) const {
    try {
      if (io::exists(file)) throw UserError(fmt::format("{} is there already", file), "name another file");
      io::replace_file(file, Json(messages_).dump(2) + "\n");
      fmt::print(stderr, "{} messages in {}\n", messages_.size(), file);
    } catch (const UserError& error) {
      fmt::print(stderr, "{}\n", error.problems().front().message);
    }
  }

  void say_to_model(const std::string& message) {
    if (const std::size_t at = invalid_utf8_at(message); at != std::string::npos) {
      fmt::print(stderr, "byte {} of the message is not UTF-8\n", at);
      return;
    }
    add("user", message);
    tries_ = 0;
    answer();
  }

  void answer() {
    try {
      write_answer();
    } catch (const ApiError& error) {
      fmt::print(stderr, "{}\n", error.what());
      messages_.pop_back();
    }
  }

  void write_answer() {
    const ServedModel& model = engine_.model();
    const std::vector<std::int32_t> prompt = chat_ids(model, {.messages = messages_});
    if (std::ssize(prompt) >= model.longest) {
      throw ApiError(400, fmt::format("the conversation has {} tokens, and may have {} with its answer: /system begins again",
                                      prompt.size(), model.longest));
    }
    train::SampleOptions sampling = sampling_;
    sampling.tokens = std::min(options_.tokens, model.longest - std::ssize(prompt));
    sampling.number = tries_;
    const std::int64_t place = engine_.batch().begin({.prompt = prompt, .sampling = sampling}).value();
    train::StopTexts stop(model.habits.generation.stops);
    std::string text;
    const auto show = [&](std::string_view piece) {
      put(piece);
      text += piece;
    };
    Interrupt::taken();
    for (bool writes = true; writes;) {
      engine_.batch().step([&](const train::WrittenToken& written) {
        const bool ends = std::ranges::find(model.habits.ends, written.token.token) != model.habits.ends.end();
        if (!ends) show(stop.add(shown_bytes(*model.tokenizer, written.token.token, false)));
        writes = !ends && !stop.found() && !written.last;
        if (!writes && !written.last) engine_.batch().end(place);
      });
      if (writes && Interrupt::taken()) {
        engine_.batch().end(place);
        writes = false;
      }
    }
    if (!stop.found()) show(stop.held());
    put("\n");
    add("assistant", std::move(text));
  }

  const ChatOptions& options_;
  TextEngine& engine_;
  const train::SampleOptions sampling_;
  bool prompts_;  ///< a person types
  Json::Array messages_;
  std::int64_t tries_ = 0;  ///< of the last message
};

int run(const Arguments& arguments) {
  ChatOptions options;
  if (!parse(arguments, options)) return 0;
  run_on_ranks(options.from.ranks(), [&](Session& session) {
    Log log(stderr, Level::warning);
    TextEngine engine(options.from, options.engine, session, log);
    Chat(options, engine, log).run();
  });
  return 0;
}

}  // namespace

Command chat_command() { return {"chat", "talk with a trained model in the terminal", run}; }

}  // namespace lockstep::app
