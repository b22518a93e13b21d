#include "app/serve/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "app/serve/api_answer.h"
#include "base/text/lower.h"
#include "base/text/visible.h"

namespace lockstep::app {
namespace {

using io::http::ServedAnswer;
using io::http::ServedRequest;

constexpr std::string_view of_model = "/v1/models/";  // before a name

ServedAnswer refused(const ApiError& error) {
  ServedAnswer answer{.status = error.status, .body = error_body(error)};
  if (error.status == 429) answer.fields.emplace_back("Retry-After", "1");
  if (error.status == 401) answer.fields.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

ApiError refusal_of(int status) {
  if (status == 413) return {413, "the request is too large", "", "request_too_large"};
  if (status == 414) return {414, "the request's path is too long"};
  if (status == 404) return {404, "there is no such path"};
  return {status, "this is no request of HTTP/1.1 that is understood here, or it did not come in time"};
}

/// Takes as long for a wrong key as for the right one.
bool same_text(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned char>(a[i] ^ (b.empty() ? '\1' : b[i % b.size()]));
  return different == 0;
}

std::uint64_t any_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 31U) ^ device();
}

void add_histogram(std::string& text, std::string_view name, std::string_view help, const Histogram& histogram) {
  text += fmt::format("# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < std::size(histogram.counts); ++i) {
    count += histogram.counts[i];
    const std::string bound = i < std::size(Histogram::bounds) ? fmt::format("{}", Histogram::bounds[i]) : "+Inf";
    text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bound, count);
  }
  text += fmt::format("{0}_sum {1}\n{0}_count {2}\n", name, histogram.sum, count);
}

}  // namespace

Api::Api(const ServedModel& model, TextService& service, std::vector<std::string> keys, std::string fingerprint)
    : model_(model),
      service_(service),
      keys_(std::move(keys)),
      fingerprint_(std::move(fingerprint)),
      created_(std::time(nullptr)) {}

std::string Api::busy() {
  return error_body({503, "the server has as many connections as it takes: try again soon", "", "overloaded"});
}

ServedAnswer Api::answer(const ServedRequest& request) {
  ServedAnswer answer;
  try {
    answer = respond(request);
  } catch (const ApiError& error) {
    answer = refused(error);
  } catch (const std::exception&) {
    answer = refused(failure());
  }
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(answers_, answer.status, &std::pair<int, std::int64_t>::first);
  found == answers_.end() ? answers_.emplace_back(answer.status, 1).second : ++found->second;
  return answer;
}

void Api::demand_key(const ServedRequest& request) const {
  if (keys_.empty()) return;
  constexpr std::string_view scheme = "bearer ";  // in any case (RFC 9110, 11.1)
  const std::string* field = request.find("Authorization");
  bool known = false;
  for (const std::string& key : keys_)
    known |= field != nullptr && lower(field->substr(0, scheme.size())) == scheme &&
             same_text(std::string_view(*field).substr(scheme.size()), key);
  if (!known) throw ApiError(401, "a key is needed: Authorization: Bearer KEY", "", "invalid_api_key");
}

ServedAnswer Api::respond(const ServedRequest& request) {
  if (request.refused != 0) throw refusal_of(request.refused);
  struct Route {
    std::string_view path;
    bool posted;
    std::function<ServedAnswer()> answer;
  };
  const Route routes[] = {
      {"/health", false, [] { return ServedAnswer{.body = R"({"status":"ok"})"}; }},
      {"/metrics", false, [&] { return ServedAnswer{.type = "text/plain; version=0.0.4", .body = metrics()}; }},
      {"/v1/models", false, [&] { return models(); }},
      {of_model, false, [&] { return one_model(std::string_view(request.path).substr(of_model.size())); }},
      {"/v1/completions", true, [&] { return complete(request, Endpoint::completions); }},
      {"/v1/chat/completions", true, [&] { return complete(request, Endpoint::chat); }},
  };
  const auto route = std::ranges::find_if(routes, [&](const Route& one) {
    return one.path.ends_with('/') ? request.path.starts_with(one.path) : request.path == one.path;
  });
  if (request.path != "/health") demand_key(request);
  if (route == std::end(routes))
    throw ApiError(404, "there is no such path; there are /v1/chat/completions, /v1/completions, /v1/models, /health, /metrics");
  const bool fits = route->posted ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!fits) {
    ServedAnswer answer = refused(ApiError(405, fmt::format("{} takes {}", route->path, route->posted ? "POST" : "GET")));
    answer.fields.emplace_back("Allow", route->posted ? "POST" : "GET, HEAD");
    return answer;
  }
  return route->answer();
}

Json Api::model_json() const {
  return Json::Object{{"id", model_.name},
                      {"object", "model"},
                      {"created", created_},
                      {"owned_by", "lockstep"},
                      {"max_model_len", model_.longest}};
}

ServedAnswer Api::models() const {
  return {.body = Json(Json::Object{{"object", "list"}, {"data", Json::Array{model_json()}}}).dump()};
}

ServedAnswer Api::one_model(std::string_view name) const {
  if (name != model_.name) throw unknown_model(Json(std::string(name)), model_);
  return {.body = model_json().dump()};
}

ServedAnswer Api::complete(const ServedRequest& request, Endpoint endpoint) {
  if (const std::string* coding = request.find("Content-Encoding"); coding != nullptr && lower(*coding) != "identity")
    throw ApiError(415, fmt::format("a body in {} is not unpacked: send it as it is", visible(*coding)));
  const ApiRequest asked = read_request(request.body, endpoint, model_, any_seed());
  std::vector<std::int32_t> ends = model_.habits.ends;
  ends.insert(ends.end(), asked.ends.begin(), asked.ends.end());
  std::vector<AskedText> texts;
  for (std::size_t prompt = 0; prompt < asked.prompts.size(); ++prompt) {
    for (std::int64_t choice = 0; choice < asked.choices; ++choice) {
      train::SampleOptions sampling = asked.sampling;
      sampling.tokens = asked.tokens[prompt];
      sampling.number = asked.seeded ? choice : std::ssize(texts);
      texts.push_back({.text = {.prompt = asked.prompts[prompt], .sampling = sampling, .likely = asked.likely},
                       .ends = ends,
                       .stops = asked.stops,
                       .shows_special = asked.shows_special});
    }
  }
  ApiAnswer::Texts writings = service_.ask(std::move(texts));
  if (writings.empty()) throw ApiError(429, "as many texts wait as may: try again soon", "", "queue_full");
  AnswerHead head{.endpoint = endpoint,
                  .id = fmt::format("{}-{:016x}", endpoint == Endpoint::chat ? "chatcmpl" : "cmpl", any_seed()),
                  .model = model_.name,
                  .fingerprint = fingerprint_,
                  .created = std::time(nullptr)};
  auto answer = std::make_shared<ApiAnswer>(std::move(head), asked, std::move(writings), *model_.tokenizer);
  ServedAnswer result;
  if (!asked.ignored.empty()) result.fields.emplace_back("X-Lockstep-Ignored", fmt::format("{}", fmt::join(asked.ignored, ", ")));
  if (asked.stream) {
    result.type = "text/event-stream";
    result.fields.emplace_back("Cache-Control", "no-cache");
    result.stream = [answer](const ServedAnswer::Put& put) {
      try {
        answer->stream(put);
      } catch (const std::exception&) {  // uncaught, it would end the server
        put(fmt::format("data: {}\n\n", error_body(failure())));
      }
    };
    return result;
  }
  std::optional<std::string> body = answer->whole(request.gone);
  if (!body) throw ApiError(499, "nobody waits for the answer");
  result.body = std::move(*body);
  return result;
}

std::string Api::metrics() const {
  const ServiceFigures figures = service_.figures();
  std::string text;
  const auto add = [&](std::string_view name, std::string_view kind, std::string_view help, std::int64_t value) {
    text += fmt::format("# HELP lockstep_{0} {1}\n# TYPE lockstep_{0} {2}\nlockstep_{0} {3}\n", name, help, kind, value);
  };
  text += "# HELP lockstep_requests_total Answers by their status.\n# TYPE lockstep_requests_total counter\n";
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [status, count] : answers_)
      text += fmt::format("lockstep_requests_total{{status=\"{}\"}} {}\n", status, count);
  }
  add("texts_total", "counter", "Texts that were begun.", figures.texts);
  add("texts_abandoned_total", "counter", "Texts that nobody waited for any more.", figures.abandoned);
  add("prompt_tokens_total", "counter", "Tokens of prompts.", figures.prompt_tokens);
  add("prompt_tokens_saved_total", "counter", "Tokens of prompts that were not read again.", figures.prompt_tokens_saved);
  add("generated_tokens_total", "counter", "Tokens that were written.", figures.written_tokens);
  add("texts_active", "gauge", "Texts that are being written.", figures.active);
  add("texts_waiting", "gauge", "Texts that wait for a place.", figures.waiting);
  add("cache_pages", "gauge", "Pages of keys and values.", figures.pages);
  add("cache_pages_free", "gauge", "Pages that no text has.", figures.pages_free);
  add_histogram(text, "lockstep_time_to_first_token_seconds", "From a request to its first token.", figures.first_token);
  add_histogram(text, "lockstep_time_per_token_seconds", "Between two tokens of a text.", figures.next_token);
  return text;
}

}  // namespace lockstep::app
