#include "tensor/ledger.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lockstep {
namespace {

TEST(LedgerOfBytes, AddsUpByKind) {
  Ledger ledger;
  ledger.add(MemoryKind::parameters, "h.0", 4096, {{MemoryKind::parameters, "h.0", "w", 4096}});
  ledger.add(MemoryKind::parameters, "h.1", 1024, {{MemoryKind::parameters, "h.1", "w", 1024}});
  ledger.add(MemoryKind::workspace, "scratch", 64, {});
  ledger.add(MemoryKind::parameters, "h.1", 1024, {});
  EXPECT_EQ(ledger.total(), 6208);
  EXPECT_EQ(ledger.total(MemoryKind::parameters), 6144);
  EXPECT_EQ(ledger.total(MemoryKind::data), 0);
  EXPECT_EQ(ledger.entries().size(), 2U);
  EXPECT_THROW(ledger.add(MemoryKind::data, "x", -1, {}), BrokenRule);
}

TEST(LedgerOfBytes, TableHasALineAKindWithItsLargestOwners) {
  Ledger ledger;
  for (const char* owner : {"h.0", "h.1", "h.2", "h.3"}) ledger.add(MemoryKind::parameters, owner, 1024, {});
  ledger.add(MemoryKind::parameters, "head", 3 * 1024 * 1024, {});
  ledger.add(MemoryKind::activations, "saved", 512, {});
  EXPECT_EQ(ledger.table(),
            "memory              bytes  largest owners\n"
            "parameters       3.00 MiB  head 3.00 MiB, h.0 1.00 KiB, h.1 1.00 KiB, 2 more\n"
            "activations         512 B  saved 512 B\n"
            "total            3.00 MiB\n");
}

Ledger layered() {
  constexpr std::int64_t k = 1024;
  Ledger ledger;
  ledger.add(MemoryKind::parameters, "weights", 10 * k,
             {{MemoryKind::parameters, "weights", "weights", k, "embedding", k},
              {MemoryKind::parameters, "weights", "weights", 3 * k, "h.0", 3 * k},
              {MemoryKind::parameters, "weights", "weights", 3 * k, "h.1", 3 * k},
              {MemoryKind::parameters, "weights", "weights", 3 * k, "h.2", 3 * k}});
  // The second lies where the first lay.
  ledger.add(MemoryKind::workspace, "scratch", 2 * k,
             {{MemoryKind::workspace, "scratch", "normed", k, "", k}, {MemoryKind::workspace, "scratch", "d", 2 * k, "head", k}});
  ledger.add(MemoryKind::workspace, "kernels", 4 * k, {});
  return ledger;
}

TEST(LedgerOfBytes, TellsWhatLayersTake) {
  const std::string columns =
      "layer            parameters    gradients    optimizer  activations    workspace         data        total\n";
  EXPECT_EQ(layered().layer_table(),
            columns +
                "embedding          1.00 KiB                                                                      1.00 KiB\n"
                "h.0 to h.2         9.00 KiB                                                                      9.00 KiB\n"
                "head                                                                   1.00 KiB                  1.00 KiB\n"
                "all layers                                                             5.00 KiB                  5.00 KiB\n");
}

TEST(LedgerOfBytes, TellsWhatTensorsTake) {
  const std::vector<LedgerTensor> tensors = layered().tensors();
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].name, "weights");
  EXPECT_EQ(tensors[0].layers, 4);
  EXPECT_EQ(tensors[0].bytes, 10 * 1024);
  EXPECT_EQ(tensors[1].name, "kernels");
  EXPECT_EQ(tensors[1].layers, 0);
  Ledger ledger = layered();
  ledger.add(MemoryKind::data, "ids", 1, {});
  ledger.add(MemoryKind::data, "mask", 2, {});
  EXPECT_EQ(ledger.tensor_table(),
            "kind                bytes  tensor\n"
            "parameters      10.00 KiB  weights of 4 layers\n"
            "workspace        4.00 KiB  kernels\n"
            "workspace        1.00 KiB  d\n"
            "workspace        1.00 KiB  normed\n"
            "                      3 B  2 smaller ones\n");
}

}  // namespace
}  // namespace lockstep
