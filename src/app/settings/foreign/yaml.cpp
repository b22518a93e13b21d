#include "app/settings/foreign/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/number_text.h"

namespace lockstep::settings {
namespace {

constexpr int most_values = 100'000, most_depth = 100;

class Converter {
 public:
  explicit Converter(const std::string& what) : what_(what) {}

  Json operator()(const YAML::Node& node, int depth = 0) {
    if (++values_ > most_values)
      refuse(node, fmt::format("more than {} values", most_values), "aliases (*name) repeat what they name");
    if (depth > most_depth)
      refuse(node, fmt::format("more than {} levels", most_depth), "an alias (*name) must not lie in what it names");
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return scalar(node);
      case YAML::NodeType::Sequence: {
        Json::Array all;
        for (const YAML::Node& each : node) all.push_back((*this)(each, depth + 1));
        return all;
      }
      case YAML::NodeType::Map:
        return map(node, depth);
      default:
        return {};
    }
  }

 private:
  [[noreturn]] void refuse(const YAML::Node& node, const std::string& why, std::string remedy) const {
    throw UserError(fmt::format("{}:{}: {}", what_, node.Mark().line + 1, why), std::move(remedy));
  }

  Json map(const YAML::Node& node, int depth) {
    Json::Object members;
    std::set<std::string> names;
    for (const auto& each : node) {
      if (!each.first.IsScalar()) refuse(each.first, "a key is no single word", "write NAME: VALUE");
      const std::string& name = each.first.Scalar();
      if (!names.insert(name).second) refuse(each.first, fmt::format("{} stands twice", name), "keep one of them");
      members.emplace_back(name, (*this)(each.second, depth + 1));
    }
    return members;
  }

  // yaml-cpp tells quoted scalars by their tag.
  static Json scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str") return text;
    bool truth = false;
    if (YAML::convert<bool>::decode(node, truth)) return truth;
    if (const auto whole = number_from<std::int64_t>(text)) return *whole;
    if (const auto number = number_from<double>(text); number && std::isfinite(*number)) return *number;
    return text;
  }

  const std::string& what_;
  int values_ = 0;
};

/// Refuses the second document as soon as it begins: of some broken files the library's parser never comes to an end.
class OneDocument : public YAML::EventHandler {
 public:
  explicit OneDocument(const std::string& what) : what_(what) {}
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {
    if (++documents_ > 2) refuse();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}  // nothing follows a last line of ---
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override { has_value(); }
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {
    has_value();
  }
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    has_value();
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    has_value();
  }
  void OnMapEnd() override {}

 private:
  void has_value() const {
    if (documents_ > 1) refuse();
  }
  [[noreturn]] void refuse() const {
    throw UserError(what_ + ": has several documents", "keep one of those between the lines of ---");
  }

  const std::string& what_;
  int documents_ = 0;
};

}  // namespace

Json json_from_yaml(std::string_view text, const std::string& what) {
  try {
    const std::string source(text);
    std::istringstream stream(source);
    YAML::Parser parser(stream);
    OneDocument one(what);
    while (parser.HandleNextDocument(one)) {
    }
    return Converter(what)(YAML::Load(source));
  } catch (const YAML::Exception& error) {
    throw UserError(fmt::format("{}:{}: no YAML: {}", what, error.mark.line + 1, error.msg), "NAME: VALUE, one a line");
  }
}

}  // namespace lockstep::settings
