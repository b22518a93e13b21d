// What doctor found of a GPU's kernels is kept, and decides about later runs.

#include <gtest/gtest.h>
#include <stdlib.h>

#include "app/cli/commands.h"
#include "app/gpu/certificate.h"
#include "app/train_command.h"
#include "base/error.h"
#include "device/cuda/cuda_runtime.h"

namespace lockstep::app {
namespace {

class Certificates : public testing::Test {
 protected:
  void SetUp() override { setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1); }
  void TearDown() override { unsetenv("XDG_CACHE_HOME"); }
  TempFolder folder_;
  GpuCertificate good_{
      .of = {"NVIDIA H100 80GB HBM3", "13.0", "0123456789abcdef"}, .date = "2026-11-27", .trials = 82, .wrong = {}};
};

TEST_F(Certificates, AreOfAGpuItsDriverAndTheKernels) {
  EXPECT_FALSE(find_certificate(good_.of));
  write_certificate(good_);
  const auto found = find_certificate(good_.of);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->of, good_.of);
  EXPECT_EQ(found->date, good_.date);
  EXPECT_EQ(found->trials, 82);
  for (const GpuKernels& other :
       {GpuKernels{"NVIDIA H200", "13.0", good_.of.hash}, GpuKernels{good_.of.gpu, "13.1", good_.of.hash},
        GpuKernels{good_.of.gpu, "13.0", "fedcba9876543210"}})
    EXPECT_FALSE(find_certificate(other)) << other.gpu << other.driver << other.hash;
}

TEST_F(Certificates, AreQuotedAtTheStartAndRefuseWrongKernels) {
  EXPECT_NE(note_on({}).find("lockstep doctor --device cuda"), std::string::npos);
  EXPECT_NE(note_on(good_).find("82 trials on 2026-11-27"), std::string::npos);
  GpuCertificate bad = good_;
  bad.wrong = {"norm, LayerNorm, both ways (bf16)", "reduce, all (f32)"};
  write_certificate(bad);
  try {
    note_on(find_certificate(good_.of));
    FAIL() << "a wrong kernel is trained with";
  } catch (const UserError& error) {
    const std::string said = error.what();
    for (const char* part : {"NVIDIA H100", "2 of 82", "LayerNorm", "train.device=cpu"})
      EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

TEST_F(Certificates, ThatCannotBeReadShowNothing) {
  write_certificate(good_);
  const std::string whole = io::read_file(certificate_file(good_.of));
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7) {
    io::replace_file(certificate_file(good_.of), whole.substr(0, size));
    EXPECT_FALSE(find_certificate(good_.of)) << size;
  }
}

TEST_F(Certificates, OfABuildWithoutCudaAreRefusedByDoctorInItsWords) {
  if (cuda::is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_FALSE(has_certified_gpu(0));
  const auto refused = [](std::vector<std::string> words, const std::string& said) {
    testing::internal::CaptureStderr();
    const std::vector<Command> commands{doctor_command()};
    EXPECT_EQ(run_program(commands, words), 2);
    const std::string found = testing::internal::GetCapturedStderr();
    EXPECT_NE(found.find(said), std::string::npos) << found;
  };
  refused({"doctor", "--device", "cuda"}, "--device cuda: this program was built without CUDA");
  refused({"doctor", "--device", "cuda", "--ranks", "2"}, "leave --ranks and --machine-file out");
  refused({"doctor", "--device", "tpu"}, "tpu");
}

}  // namespace
}  // namespace lockstep::app
