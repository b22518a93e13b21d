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

}  // namespace
}  // namespace lockstep
