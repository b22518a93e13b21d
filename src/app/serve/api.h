#pragma once

// The endpoints: /v1/chat/completions, /v1/completions, /v1/models, /v1/models/NAME, /health, /metrics.

#include <mutex>
#include <string>
#include <vector>

#include "app/serve/api_request.h"
#include "app/serve/text_service.h"
#include "io/http/server.h"

namespace lockstep::app {

class Api {
 public:
  /// `keys`: every path but /health asks for one of them; empty: no path does. What is referred to outlives this.
  Api(const ServedModel& model, TextService& service, std::vector<std::string> keys, std::string fingerprint);
  /// Thread-safe.
  io::http::ServedAnswer answer(const io::http::ServedRequest& request);
  /// What a connection is told for which there is no thread.
  static std::string busy();

 private:
  io::http::ServedAnswer respond(const io::http::ServedRequest& request);
  io::http::ServedAnswer complete(const io::http::ServedRequest& request, Endpoint endpoint);
  Json model_json() const;
  io::http::ServedAnswer models() const;
  io::http::ServedAnswer one_model(std::string_view name) const;
  std::string metrics() const;
  void demand_key(const io::http::ServedRequest& request) const;
  const ServedModel& model_;
  TextService& service_;
  std::vector<std::string> keys_;
  std::string fingerprint_;
  std::int64_t created_;
  mutable std::mutex mutex_;
  std::vector<std::pair<int, std::int64_t>> answers_;  ///< how many of each status
};

}  // namespace lockstep::app
