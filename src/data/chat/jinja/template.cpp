#include "data/chat/jinja/template.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/chat/jinja/interpreter.h"
#include "data/chat/jinja/parser.h"
#include "data/chat/jinja/tokens.h"

namespace lockstep::data::jinja {
namespace {

template <class Work>
auto naming(const std::string& name, Work work) {
  try {
    return work();
  } catch (const UserError& error) {
    const Problem& problem = error.problems().front();
    throw UserError(fmt::format("{}, {}", name, problem.message), problem.remedy);
  }
}

bool has_generation(const std::vector<Node>& statements) {
  for (const Node& node : statements) {
    if (node.kind == NodeKind::generation) return true;
    for (const std::vector<Node>& block : node.blocks) {
      if (has_generation(block)) return true;
    }
    if (has_generation(node.parts)) return true;
  }
  return false;
}

}  // namespace

Template::Template(std::string_view source, std::string name) : name_(std::move(name)), source_(normal_source(source)) {
  naming(name_, [&] {
    if (const std::size_t at = invalid_utf8_at(source_); at != std::string::npos)
      refuse_at(source_, at, "this is not valid UTF-8", "write the template again");
    statements_ = parse(source_);
  });
  marks_generation_ = has_generation(statements_);
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Rendered Template::render(const Json::Object& variables, const Settings& settings) const {
  return naming(name_, [&] { return Interpreter(source_, settings).render(statements_, variables); });
}

}  // namespace lockstep::data::jinja
