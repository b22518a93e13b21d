#include "app/serve/api_error.h"

#include "base/json.h"

namespace lockstep::app {

std::string error_body(const ApiError& error) {
  const char* type = error.status == 401   ? "authentication_error"
                     : error.status >= 500 ? "server_error"
                     : error.status == 429 ? "rate_limit_error"
                                           : "invalid_request_error";
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return Json(Json::Object{{"error", Json::Object{{"message", error.what()},
                                                  {"type", type},
                                                  {"param", text_or_null(error.parameter)},
                                                  {"code", text_or_null(error.code)}}}})
      .dump();
}

}  // namespace lockstep::app
