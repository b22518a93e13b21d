#include "app/settings/config_help.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "app/settings/keys.h"
#include "app/settings/presets.h"

namespace lockstep::settings {
namespace {

TEST(ConfigHelp, ListsEveryKeyWithDefaultMeaningAndUnit) {
  const std::string help = config_help("", 120);
  for (const Key& key : keys()) {
    EXPECT_NE(help.find("\n  " + std::string(key.name) + "=" + shown(key.get(app::RunConfig()))), std::string::npos) << key.name;
    EXPECT_FALSE(key.meaning.empty()) << key.name;
  }
  EXPECT_NE(help.find("train.max_iters=10000               optimizer steps of the run [iterations]"), std::string::npos);
  for (const Preset& preset : presets()) EXPECT_NE(help.find(preset.option), std::string::npos);
}

TEST(ConfigHelp, AGroupFitsAScreen) {
  for (const Group& group : groups()) {
    std::istringstream lines(config_help(group.name, 120));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 120U) << line;
    EXPECT_LE(count, 50) << group.name;
  }
}

TEST(ConfigHelp, OneKey) {
  const std::string help = config_help("train.max_minutes", 120);
  EXPECT_NE(help.find("a number above 0, or null"), std::string::npos);
  EXPECT_NE(help.find("unit     minutes"), std::string::npos);
  EXPECT_NE(config_help("train.seed", 120).find("an integer of at least 0, or random, or null"), std::string::npos);
  EXPECT_NE(config_help("train.seed", 120).find("must be equal"), std::string::npos);
  EXPECT_NE(config_help("optimizer.beta1", 120).find("changes what is learned"), std::string::npos);
  EXPECT_NE(config_help("model.activation", 120).find("one of gelu, gelu_tanh, relu, silu, swiglu"), std::string::npos);
  EXPECT_NE(config_help("optimizer.name", 120).find("AdamW"), std::string::npos);
}

TEST(ConfigHelp, UnknownTopicsNameTheNearest) {
  const auto error = [](std::string_view topic) {
    try {
      (void)config_help(topic, 120);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("modle"), "unknown group modle\n  -> did you mean model?");
  EXPECT_EQ(error("qqqqqqqqqq"), "unknown group qqqqqqqqqq\n  -> lockstep help config lists them");
  EXPECT_EQ(error("train.max_iter"), "unknown setting train.max_iter\n  -> did you mean train.max_iters?");
}

}  // namespace
}  // namespace lockstep::settings
