// Formulas against figures that were published with them.

#include <gtest/gtest.h>

#include "planner/formulas/memory_rules.h"
#include "planner/formulas/network.h"
#include "planner/formulas/throughput.h"
#include "planner/machine.h"
#include "planner/peaks.h"
#include "planner/waves.h"

namespace lockstep::planner {
namespace {

TEST(Throughput, OfA52BillionModelIsThePublishedOne) {
  const Throughput rate =
      throughput({.parameters = 52e9, .devices = 64, .samples = 1024, .positions = 2048, .seconds = 127, .recompute = true});
  EXPECT_NEAR(rate.hardware, 107.33, 0.005);
  EXPECT_NEAR(rate.model, 107.33 * 3 / 4, 0.005);
  EXPECT_EQ(throughput({.parameters = 1e12, .devices = 1, .samples = 1, .positions = 1, .seconds = 1}).hardware, 6);
}

TEST(Peaks, AreThePublishedOnes) {
  EXPECT_EQ(peak_from("a100"), 312);
  EXPECT_EQ(peak_from("A100:FP32"), 19.5);
  EXPECT_EQ(peak_from("tpu-v6e"), 918);
  EXPECT_NEAR(*peak_from("1410x256x432"), 311.87, 0.005);
  EXPECT_NEAR(*peak_from("1830x512x528"), 989.43, 0.005);
  for (const char* wrong : {"", "a1000", "1410x256", "1410x256x", "1410x-256x432", "1410x256x432x1"})
    EXPECT_FALSE(peak_from(wrong).has_value()) << wrong;
  for (const Machine& machine : machine_presets())
    EXPECT_EQ(machine.peak_flops, peak_from(machine.name.substr(0, machine.name.find('-'))).value_or(0) * 1e12) << machine.name;
}

TEST(Machines, AreFoundByTheNamesOfTheirGpus) {
  const auto preset_of = [](const char* gpu) {
    const Machine* machine = machine_with(gpu);
    return machine != nullptr ? machine->name : "none";
  };
  EXPECT_EQ(preset_of("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(preset_of("NVIDIA A100-SXM4-40GB"), "a100-40gb");
  EXPECT_EQ(preset_of("NVIDIA A100-SXM4-80GB"), "a100");
  EXPECT_EQ(preset_of("Emulated GPU"), "none");
}

// IDEFICS-80B on 512 devices.
TEST(Network, OfAn80BillionModelIsThePublishedOne) {
  NetworkQuestion question{
      .parameters = 80e9, .devices = 512, .samples = 3584, .positions = 1024, .tflops = 250, .recompute = true};
  const NetworkAnswer answer = ask_network(*find_strategy("zero3"), question);
  EXPECT_NEAR(answer.seconds(42.5), 11.3, 0.05);
  EXPECT_NEAR(answer.seconds(8.5), 56, 0.5);
  EXPECT_NEAR(answer.seconds(212), 2.3, 0.05);
  EXPECT_NEAR(answer.compute_seconds, 18.35, 0.005);
  EXPECT_FALSE(answer.network_bound(42.5));
  EXPECT_TRUE(answer.network_bound(8.5));
  EXPECT_NEAR(answer.seconds(answer.bandwidth), answer.compute_seconds, 1e-9);
  question.tflops = 90;
  EXPECT_NEAR(ask_network(*find_strategy("zero3"), question).compute_seconds, 51, 0.1);
}

TEST(Network, MicroBatchesMultiplyWhatTheyExchange) {
  NetworkQuestion question{.parameters = 10e9, .devices = 8, .samples = 8, .positions = 1024, .tflops = 100};
  const auto moved = [&](const char* strategy) { return ask_network(*find_strategy(strategy), question).bytes * 1e-9; };
  EXPECT_NEAR(moved("zero3"), 60, 1e-9);
  EXPECT_NEAR(moved("zero1"), 40, 1e-9);
  EXPECT_NEAR(moved("ddp"), 40, 1e-9);
  question.microbatches = 4;
  EXPECT_NEAR(moved("zero3"), 240, 1e-9);
  EXPECT_NEAR(moved("zero2"), 160, 1e-9);
  EXPECT_NEAR(moved("zero1"), 40, 1e-9);
  EXPECT_EQ(find_strategy("zero4"), nullptr);
}

TEST(Network, ABroadcastRoundARingIsPassedOnInMessages) {
  EXPECT_DOUBLE_EQ(ring_broadcast_seconds(8e9, 1e9, 5, 1), 4 * 8);         // (k - 1) N / B
  EXPECT_DOUBLE_EQ(ring_broadcast_seconds(8e9, 1e9, 5, 8), 8.0 * 11 / 8);  // N (S + k - 2) / (S B)
  EXPECT_NEAR(ring_broadcast_seconds(8e9, 1e9, 5, 1'000'000), 8, 1e-4);    // N / B
  EXPECT_DOUBLE_EQ(ring_broadcast_seconds(8e9, 1e9, 2, 1), 8);
}

TEST(Network, ARanksShareOfItIsAPartOfTheBusBandwidth) {
  EXPECT_DOUBLE_EQ(network_share(93, 4, 32), 9);  // (k - 1) / (n - 1)
  EXPECT_DOUBLE_EQ(network_share(93, 1, 8), 0);
}

TEST(Waves, SpeedupsAreThePublishedOnes) {
  const auto speedup = [](std::int64_t tiles) { return wave_speedup(tiles, 148, 152); };
  EXPECT_DOUBLE_EQ(speedup(148), 1);
  EXPECT_DOUBLE_EQ(speedup(152), 2);
  EXPECT_DOUBLE_EQ(speedup(296), 1);
  EXPECT_DOUBLE_EQ(speedup(304), 1.5);
  EXPECT_NEAR(speedup(3584), 1.042, 5e-4);
  EXPECT_NEAR(speedup(50000), 1.027, 5e-4);
  EXPECT_EQ(tiles_of(8192, 14336, {128, 256}), 3584);
}

TEST(Waves, OneTileTooManyIsAWaveOfItsOwn) {
  EXPECT_EQ(waves(109, 108), 2);
  EXPECT_NEAR(wave_efficiency(109, 108), 0.505, 5e-4);
  EXPECT_EQ(tiles_of(65536, 3072, {128, 256}), 6144);
  EXPECT_EQ(waves(6144, 108), 57);
  EXPECT_NEAR(wave_efficiency(6144, 108), 0.998, 5e-4);
  EXPECT_NEAR(tile_efficiency(65536, 65, {128, 256}), 0.254, 5e-4);
}

TEST(MemoryRules, ZeroLawIsThePapersFigure) {
  const auto bytes = zero_law(7.5e9, 64);
  EXPECT_NEAR(bytes[0] * 1e-9, 120, 0.05);
  EXPECT_NEAR(bytes[1] * 1e-9, 31.4, 0.05);
  EXPECT_NEAR(bytes[2] * 1e-9, 16.6, 0.05);
  EXPECT_NEAR(bytes[3] * 1e-9, 1.9, 0.05);
}

TEST(MemoryRules, ActivationsOfALongSampleAreThePublishedOnes) {
  arch::ModelConfig llama;
  llama.layers = 32;
  llama.width = 4096;
  llama.vocabulary = 128256;
  const ActivationRule rule = activation_rule(llama, 1, 32768);
  EXPECT_DOUBLE_EQ(rule.hidden / 0x1p30, 0.25);
  EXPECT_DOUBLE_EQ(rule.layer / 0x1p30, 7);
  EXPECT_DOUBLE_EQ(rule.inputs / 0x1p30, 8);
  EXPECT_DOUBLE_EQ(rule.working / 0x1p30, 224);
  EXPECT_NEAR(rule.logits / 0x1p30, 15.7, 0.05);
  EXPECT_NEAR(rule.with_recompute() / 0x1p30, 31, 0.5);
  EXPECT_NEAR(rule.without() / 0x1p30, 240, 0.5);
}

}  // namespace
}  // namespace lockstep::planner
