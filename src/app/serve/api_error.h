#pragma once

// What OpenAI's API answers with in place of a text.

#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep::app {

/// A request that is refused, as the API says it.
struct ApiError : std::runtime_error {
  ApiError(int the_status, const std::string& message, std::string the_parameter = "", std::string the_code = "")
      : std::runtime_error(message), status(the_status), parameter(std::move(the_parameter)), code(std::move(the_code)) {}
  int status;
  std::string parameter, code;  ///< empty: null
};
/// For what is no fault of the request.
inline ApiError failure() { return {500, "the server has failed at this request"}; }
/// {"error": {"message", "type", "param", "code"}}
std::string error_body(const ApiError& error);

}  // namespace lockstep::app
