// lockstep pull, against a hub on this machine that answers well, and in every wrong way.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "app/cli/commands.h"
#include "app/fake_hub.h"
#include "app/folder/run_lock.h"
#include "support/temp_folder.h"
#include "support/text.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;
struct Pulled {
  int code = 0;
  std::string out, err;
};

class Pull : public testing::Test {
 protected:
  Pull() {
    for (const char* name : {"HF_TOKEN", "HF_ENDPOINT", "http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "HTTPS_PROXY"})
      unsetenv(name);
    const fs::path golden = "tests/golden/data/huggingface/llama";
    for (const char* name : {"config.json", "model.safetensors"}) hub_.files[name] = io::read_file(golden / name);
    hub_.files["generation_config.json"] = "{}";
    hub_.files["chat_template.jinja"] = "{{ messages }}";
    hub_.files["README.md"] = "# Tiny";
    hub_.files["pytorch_model.bin"] = "pickle";
  }
  ~Pull() override { unsetenv("HF_TOKEN"); }

  Pulled pull(std::vector<std::string> more = {}, const std::string& model = "org/tiny") const {
    std::vector<std::string> words{"pull", model};
    words.insert(words.end(), more.begin(), more.end());
    for (const auto& [option, value] :
         {std::pair<std::string, std::string>{"--timeout", "1"}, {"--out", at("m")}, {"--endpoint", hub_.url()}})
      if (std::ranges::find(more, option) == more.end()) words.insert(words.end(), {option, value});
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_program(std::vector<Command>{pull_command()}, words);
    std::fflush(stdout);
    std::string out = testing::internal::GetCapturedStdout();
    return {code, std::move(out), testing::internal::GetCapturedStderr()};
  }
  /// One error that has both texts, and no weights.
  void expect_refused(const Pulled& pulled, const std::string& rule, const std::string& remedy) const {
    EXPECT_EQ(pulled.code, 2) << pulled.out << pulled.err;
    EXPECT_TRUE(contains(pulled.err, rule)) << pulled.err;
    EXPECT_TRUE(contains(pulled.err, remedy)) << pulled.err;
    EXPECT_FALSE(contains(pulled.out + pulled.err, "geheim"));
    EXPECT_EQ(pulled.err.find("error"), pulled.err.rfind("error")) << pulled.err;
    EXPECT_FALSE(fs::exists(at("m/model.safetensors")));
    EXPECT_FALSE(fs::exists(at("m/pull.lock")));
  }
  void expect_refused(const std::string& part, const HttpServer::Answer& answer, const std::string& rule,
                      const std::string& remedy) {
    hub_.wrong = {{part, answer}};
    expect_refused(pull(), rule, remedy);
    hub_.wrong.clear();
  }
  void expect_whole() const {
    for (const auto& [name, content] : hub_.files) {
      if (name.ends_with(".md") || name.ends_with(".bin")) {
        EXPECT_FALSE(fs::exists(at("m/" + name))) << name;
      } else {
        EXPECT_EQ(io::read_file(at("m/" + name)), content) << name;
      }
    }
    for (const auto& file : fs::directory_iterator(at("m"))) EXPECT_NE(file.path().extension(), ".part");
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  const std::string& weights() const { return hub_.files.at("model.safetensors"); }

  TempFolder folder_;
  FakeHub hub_;
};

const HttpServer::Answer drops_at_once = [](const HttpAsked&, const HttpConnection&) {};
HttpServer::Answer says(int status, const std::string& type, const std::string& body, const std::string& more = "") {
  return [=](const HttpAsked&, const HttpConnection& to) { to.answer(status, type, body, more); };
}

TEST_F(Pull, BringsAModelAndASecondTimeNothing) {
  const Pulled first = pull();
  ASSERT_EQ(first.code, 0) << first.err;
  expect_whole();
  EXPECT_TRUE(contains(first.out, "org/tiny at main (commit 0123456789ab)")) << first.out;
  EXPECT_TRUE(contains(first.out, "pulled org/tiny to " + at("m") + ": 4 files")) << first.out;
  const std::size_t asked = hub_.asked_store().size();
  const Pulled second = pull();
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(contains(second.out, "is there")) << second.out;
  EXPECT_EQ(hub_.asked_store().size(), asked);
}

TEST_F(Pull, TakesTheFilesOfTheIndexAlone) {
  const std::string whole = hub_.files.at("model.safetensors");
  hub_.files.erase("model.safetensors");
  hub_.files["a.safetensors"] = whole;
  hub_.files["consolidated.safetensors"] = whole;
  hub_.files["model.safetensors.index.json"] = R"({"weight_map": {"model.embed_tokens.weight": "a.safetensors"}})";
  hub_.large = {"a.safetensors", "consolidated.safetensors"};
  const Pulled pulled = pull();
  ASSERT_EQ(pulled.code, 0) << pulled.err;
  EXPECT_EQ(io::read_file(at("m/a.safetensors")), whole);
  EXPECT_FALSE(fs::exists(at("m/consolidated.safetensors")));
  hub_.files["model.safetensors.index.json"] = R"({"weight_map": {"x": "b.safetensors"}})";
  expect_refused(pull({"--out", at("n")}), "names b.safetensors, which is not there", "--revision");
}

TEST_F(Pull, TheTokenGoesToTheHubAlone) {
  setenv("HF_TOKEN", "hf_secret", 1);
  const Pulled pulled = pull();
  ASSERT_EQ(pulled.code, 0) << pulled.err;
  for (const HttpAsked& asked : hub_.asked_hub()) EXPECT_TRUE(asked.says("Authorization: Bearer hf_secret\r\n")) << asked.head;
  ASSERT_FALSE(hub_.asked_store().empty());
  for (const HttpAsked& asked : hub_.asked_store()) EXPECT_FALSE(asked.says("uthorization")) << asked.head;
  EXPECT_FALSE(contains(pulled.out + pulled.err, "hf_secret"));
  EXPECT_FALSE(contains(pulled.out + pulled.err, "geheim"));
}

TEST_F(Pull, ATokenThatHasLeftDoesNotComeBack) {
  setenv("HF_TOKEN", "hf_secret", 1);
  hub_.wrong["store"] = [this](const HttpAsked&, const HttpConnection& to) {
    to.answer(302, "text/plain", "", "Location: " + hub_.url() + "/back\r\n");
  };
  hub_.wrong["/back"] = [this](const HttpAsked& asked, const HttpConnection& to) {
    EXPECT_FALSE(asked.says("uthorization")) << asked.head;
    FakeHub::send(weights(), asked, to);
  };
  ASSERT_EQ(pull().code, 0);
  expect_whole();
}

TEST_F(Pull, GoesOnWhereAConnectionBroke) {
  hub_.wrong["store"] = [this](const HttpAsked& asked, const HttpConnection& to) {
    if (asked.says("Range: bytes=30000-")) return FakeHub::send(weights(), asked, to);
    to.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", weights().size(), weights().substr(0, 30000)));
  };
  hub_.wrong["generation_config"] = [this, calls = 0](const HttpAsked& asked, const HttpConnection& to) mutable {
    if (++calls < 3) return to.answer(503, "text/plain", "busy");
    FakeHub::send(hub_.files.at("generation_config.json"), asked, to);
  };
  const Pulled pulled = pull();
  ASSERT_EQ(pulled.code, 0) << pulled.err;
  expect_whole();
  EXPECT_EQ(hub_.asked_store().size(), 2U);
}

TEST_F(Pull, GoesOnWithWhatAnEarlierPullLeft) {
  fs::create_directories(at("m"));
  io::replace_file(at("m/model.safetensors.part"), weights().substr(0, 1000));
  ASSERT_EQ(pull().code, 0);
  expect_whole();
  ASSERT_EQ(hub_.asked_store().size(), 1U);
  EXPECT_TRUE(hub_.asked_store()[0].says("Range: bytes=1000-\r\n"));
}

TEST_F(Pull, StartsAgainWhereAPartIsOfNoUse) {
  const auto ignores_ranges = [this](const HttpAsked&, const HttpConnection& to) { to.answer(200, "x/y", weights()); };
  const std::vector<std::pair<std::string, HttpServer::Answer>> cases = {
      {weights().substr(0, 500), ignores_ranges},
      {std::string(500, 'x'), nullptr},               // another revision's
      {std::string(weights().size(), 'x'), nullptr},  // whole, and wrong
      {weights() + "more", nullptr},
  };
  for (const auto& [part, answer] : cases) {
    fs::remove_all(at("m"));
    fs::create_directories(at("m"));
    io::replace_file(at("m/model.safetensors.part"), part);
    hub_.wrong.clear();
    if (answer) hub_.wrong["store"] = answer;
    const Pulled pulled = pull();
    EXPECT_EQ(pulled.code, 0) << pulled.err;
    expect_whole();
  }
}

TEST_F(Pull, RefusesAnswersThatAreNoFiles) {
  const std::string html = "<html>Log in</html>";
  expect_refused("revision/main", says(404, "text/plain", ""), "answers 404 to the question for revision main", "--revision");
  expect_refused("revision/main", says(401, "text/plain", "", "X-Error-Message: Invalid username or password.\r\n"),
                 "(Invalid username or password.)", "export HF_TOKEN=...");
  expect_refused("resolve", says(403, "text/plain", ""), "answers 403 to config.json",
                 "the model is gated: accept its conditions at");
  expect_refused("tree", says(500, "text/plain", ""), "answers 500 to the list of files", "run the command again later");
  expect_refused("tree", says(429, "text/plain", ""), "answers 429", "with HF_TOKEN more is allowed");
  expect_refused("tree", says(418, "text/plain", ""), "answers 418", "--endpoint");
  expect_refused("revision", says(200, "text/html; charset=utf-8", html), "a page of HTML to the question",
                 "a proxy or a page to log in");
  expect_refused("store", says(200, "text/html", html), "a page of HTML to model.safetensors", "a proxy or a page to log in");
  expect_refused("revision", says(200, "text/plain", "{\"sha\": 7}"), "does not say which commit main is", "no hub of models");
  expect_refused("tree", says(200, "text/plain", "{"), "list of files", "");
  setenv("HF_TOKEN", "hf_secret", 1);
  expect_refused("revision", says(401, "text/plain", ""), "answers 401", "HF_TOKEN: a token that is valid");
}

TEST_F(Pull, RefusesBrokenConnections) {
  const auto garbage = [](const HttpAsked&, const HttpConnection& to) { to.send("SSH-2.0-OpenSSH_9.2\r\n\r\n"); };
  const auto stalls = [](const HttpAsked&, const HttpConnection& to) { to.stall(); };
  const auto stalls_in_the_body = [](const HttpAsked&, const HttpConnection& to) {
    to.send("HTTP/1.1 200 OK\r\nContent-Length: 37376\r\n\r\nabc");
    to.stall();
  };
  const auto ends_early = [this](const HttpAsked&, const HttpConnection& to) {
    to.send("HTTP/1.1 200 OK\r\n\r\n" + weights().substr(0, 999));
  };
  const auto turns = [](const HttpAsked& asked, const HttpConnection& to) {
    to.answer(302, "text/plain", "", "Location: " + asked.path + "x\r\n");
  };
  const std::string again = "run the command again";
  expect_refused("revision", drops_at_once, "Empty reply", again);
  expect_refused("store", drops_at_once, "Empty reply", again);
  expect_refused("revision", garbage, "cannot get", "try again");
  expect_refused("tree", stalls, "cannot get", again);
  expect_refused("store", stalls_in_the_body, "cannot get", "it goes on where it stopped");
  expect_refused("store", ends_early, "model.safetensors ended at byte 999 of 37376", "it goes on where it stopped");
  EXPECT_TRUE(fs::exists(at("m/model.safetensors.part"))) << "the next pull goes on";
  expect_refused("resolve", turns, "redirects more than 10 times", "the server is at fault");
}

TEST_F(Pull, RefusesSizesAndBytesThatAreNotTheListed) {
  const std::string text = weights();
  const auto too_many = [text](const HttpAsked&, const HttpConnection& to) {
    to.send("HTTP/1.1 200 OK\r\n\r\n" + text + "more");
  };
  expect_refused("store", says(200, "x/y", text + "more"), "37376 bytes by the hub's list, and 37380 by the answer", "at fault");
  expect_refused("store", says(200, "x/y", "less"), "and 4 by the answer", "at fault");
  expect_refused("store", too_many, "and more by the answer", "at fault");
  expect_refused("store", says(206, "x/y", text, "Content-Range: bytes 0-37375/99999\r\n"), "and bytes 0-37375/99999",
                 "at fault");
  fs::remove_all(at("m"));
  expect_refused("store", says(200, "x/y", std::string(text.size(), 'x')), "has the checksum", "--endpoint");
  EXPECT_FALSE(fs::exists(at("m/model.safetensors.part"))) << "it would be wrong for ever";
  fs::remove_all(at("m"));
  expect_refused("chat_template", says(200, "x/y", "{{ massages }}"), "what came as chat_template.jinja has the checksum",
                 "--endpoint");
}

TEST_F(Pull, RefusesListingsOfOtherThings) {
  const auto entry = [](const std::string& path, const std::string& size, const std::string& hash) {
    return fmt::format(R"([{{"type": "file", "path": "{}", "size": {}, "oid": "{}"}}])", path, size, hash);
  };
  for (const char* path : {"../x", "/etc/x", "a/../../x", "a//b", "a\\\\b", "a\\n", ""}) {
    hub_.listing = entry(path, "5", pulled_commit);
    expect_refused(pull(), "would leave the folder", "do not take files from there");
  }
  hub_.listing = entry("config.json", "-1", pulled_commit);
  expect_refused(pull(), "config.json has size -1", "--endpoint");
  hub_.listing = entry("config.json", "5", "abc");
  expect_refused(pull(), "hash abc", "--endpoint");
  hub_.listing = entry("model.safetensors", "5", pulled_commit);
  expect_refused(pull(), "there is no config.json", "not of an adapter");
  hub_.listing = entry("model.gguf", "5", pulled_commit);
  expect_refused(pull(), "GGUF files (model.gguf)", "download one by its address");
  hub_.listing = "[]";
  expect_refused(pull(), "there are no .safetensors files", "name a repository");
  hub_.listing = "";
  hub_.files.erase("model.safetensors");
  expect_refused(pull(), "its weights are pickled (pytorch_model.bin)", "safe_serialization=True");
  hub_.files["a.safetensors"] = hub_.files["b.safetensors"] = "x";
  expect_refused(pull(), "there are 2 .safetensors files (a.safetensors, b.safetensors)", "or a revision that has one");
  EXPECT_FALSE(fs::exists(at("m")));
}

TEST_F(Pull, RefusesAModelThatCannotBeReadBeforeItsWeightsCome) {
  hub_.files["config.json"] = R"({"model_type": "mixtral"})";
  expect_refused(pull(), "mixtral", "");
  EXPECT_TRUE(hub_.asked_store().empty());
}

TEST_F(Pull, LeavesFilesThatDiffer) {
  fs::create_directories(at("m"));
  const std::string advice = "remove it, or choose another folder with --out";
  io::replace_file(at("m/chat_template.jinja"), "{{ messages?}}");
  expect_refused(pull(), "chat_template.jinja is there, and differs from the file of org/tiny", advice);
  io::replace_file(at("m/chat_template.jinja"), "mine");
  expect_refused(pull(), "chat_template.jinja is there with 4 bytes, and org/tiny has it with 14", advice);
  EXPECT_EQ(io::read_file(at("m/chat_template.jinja")), "mine");
  fs::remove(at("m/chat_template.jinja"));
  io::replace_file(at("m/tokenizer.json"), "{}");
  expect_refused(pull(), "tokenizer.json is there, and org/tiny has no such file", advice);
}

TEST_F(Pull, RefusesWordsThatNameNothing) {
  expect_refused(pull({}, ""), "ORG/NAME is an empty word", "look whether a variable of the shell is set");
  for (const char* name :
       {"a/b/c", "../x", "a b", "https://huggingface.co/org/tiny", "a--b/c", "a/b..c", "a-/b", "a/b.git", "a/"})
    expect_refused(pull({}, name), "a model's name is ORG/NAME", "openai-community/gpt2");
  expect_refused(pull({"--revision", ""}), "--revision is an empty word", "leave it out");
  expect_refused(pull({"--timeout", "0"}), "--timeout 0: must be at least 1", "--timeout 60");
  for (const char* endpoint : {"huggingface.co", "ftp://x", "https://user:geheim@x?geheim", "https://x#y", "file:///etc"})
    expect_refused(pull({"--endpoint", endpoint}), "an endpoint is the address of a hub", "--endpoint or HF_ENDPOINT");
  setenv("HF_TOKEN", "hf_geheim", 1);
  expect_refused(pull({"--endpoint", "http://hub.invalid"}), "HF_TOKEN would go there unencrypted", "use https");
  setenv("HF_TOKEN", "hf_geheim\nX: y", 1);
  expect_refused(pull(), "HF_TOKEN has a character that no token has", "copy the token again");
  EXPECT_TRUE(hub_.asked_hub().empty());
}

TEST_F(Pull, RefusesWhereThereIsNoNetworkOrNoCurl) {
  std::string closed;
  {
    const HttpServer gone(drops_at_once);
    closed = gone.url();
  }
  expect_refused(pull({"--endpoint", closed}), "cannot get " + closed, "is there a network?");
  setenv("HF_ENDPOINT", closed.c_str(), 1);
  expect_refused(pull({"--endpoint", "https" + hub_.url().substr(4)}), "cannot get https://127.0.0.1", "certificates");
  const std::string path = std::getenv("PATH");
  setenv("PATH", at("none").c_str(), 1);
  expect_refused(pull(), "the program curl cannot be run", "install curl");
  setenv("PATH", path.c_str(), 1);
  unsetenv("HF_ENDPOINT");
}

TEST_F(Pull, RefusesWhereThereIsNoRoom) {
  hub_.listing = fmt::format(R"([{{"type": "file", "path": "config.json", "size": {}, "oid": "{}"}}, )"
                             R"({{"type": "file", "path": "model.safetensors", "size": 5, "oid": "{}"}}])",
                             std::int64_t{1} << 60, pulled_commit, pulled_commit);
  expect_refused(pull(), "org/tiny needs", "free some space");
  hub_.listing = "";
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{20000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Pulled pulled = pull();
  setrlimit(RLIMIT_FSIZE, &before);
  expect_refused(pulled, "cannot write " + at("m/model.safetensors.part"), "ulimit -f");
  ASSERT_EQ(pull().code, 0);
  expect_whole();
}

TEST_F(Pull, OneAtATimeWritesIntoAFolder) {
  {
    const RunLock other(at("m"), {}, {.file = "pull.lock", .owner = "pull"});
    const Pulled pulled = pull();
    EXPECT_EQ(pulled.code, 2);
    EXPECT_TRUE(contains(pulled.err, "another pull is writing into this folder")) << pulled.err;
  }
  EXPECT_EQ(pull().code, 0);
}

}  // namespace
}  // namespace lockstep::app
