#include <gtest/gtest.h>

#include "bundle/bundle.h"

namespace rtx::bundle {

namespace {

struct VerdictCase {
  const char* what;
  Identity file;
  const char *target, *device, *arch, *driver;
  VerdictKind wanted;
  const char* sentence;  // a part of it
};

// What is written last in an Identity (toolchain, synth_sha) never matters.
const VerdictCase kVerdicts[] = {
    {"the same machine", {"cpu", "zen3", "x86-64-v3", "none", 1, "gcc 12", "aa"}, "cpu", "zen3", "x86-64-v3", "none", VerdictKind::exact, "made for this device"},
    {"another device of the same arch", {"cpu", "zen3", "x86-64-v3", "none", 1, "", ""}, "cpu", "zen4", "x86-64-v3", "none", VerdictKind::compatible, "tuned elsewhere"},
    {"a machine with more instructions", {"cpu", "zen3", "x86-64-v3", "none", 1, "", ""}, "cpu", "zen5", "x86-64-v4", "none", VerdictKind::compatible, "uses less"},
    {"a machine with fewer instructions", {"cpu", "zen5", "x86-64-v4", "none", 1, "", ""}, "cpu", "zen3", "x86-64-v3", "none", VerdictKind::rebuild, "another instruction set"},
    {"another architecture", {"cpu", "zen3", "x86-64-v3", "none", 1, "", ""}, "cpu", "n1", "armv8-a", "none", VerdictKind::rebuild, "another instruction set"},
    {"another target", {"cuda", "h200", "sm_90a", "CUDA 13.0", 1, "", ""}, "cpu", "zen3", "x86-64-v3", "none", VerdictKind::refuse, "another kind of device"},
    {"an older gpu's file", {"cuda", "t4", "sm_75", "CUDA 13.0", 1, "", ""}, "cuda", "h200", "sm_90a", "CUDA 13.0", VerdictKind::rebuild, "another instruction set"},
    {"a newer driver than the file's", {"cuda", "h200", "sm_90a", "CUDA 12.8", 1, "", ""}, "cuda", "h200", "sm_90a", "CUDA 13.0", VerdictKind::compatible, "another driver"},
    {"a file that names a newer driver", {"cuda", "h200", "sm_90a", "CUDA 14.0", 1, "", ""}, "cuda", "h200", "sm_90a", "CUDA 13.0", VerdictKind::rebuild, "needs another driver"},
    {"another maker's driver", {"cuda", "h200", "sm_90a", "ROCm 6.0", 1, "", ""}, "cuda", "h200", "sm_90a", "CUDA 13.0", VerdictKind::rebuild, "needs another driver"},
    {"a driver where there is none", {"cpu", "zen3", "x86-64-v3", "driver 99", 1, "", ""}, "cpu", "zen3", "x86-64-v3", "none", VerdictKind::rebuild, "needs another driver"},
    {"a file whose steps have views", {"cpu", "zen3", "x86-64-v3", "none", 2, "", ""}, "cpu", "zen3", "x86-64-v3", "none", VerdictKind::exact, "made for this device"},
    {"a newer runtime's file", {"cpu", "zen3", "x86-64-v3", "none", 3, "", ""}, "cpu", "zen3", "x86-64-v3", "none", VerdictKind::refuse, "newer runtime"},
    {"an older runtime's file", {"cpu", "zen3", "x86-64-v3", "none", 0, "", ""}, "cpu", "zen3", "x86-64-v3", "none", VerdictKind::rebuild, "older runtime"},
};

TEST(Judge, every_pair_of_file_and_machine_gets_its_verdict) {
  for (const auto& c : kVerdicts) {
    backend::Caps here;
    here.target = c.target;
    here.device = c.device;
    here.arch = c.arch;
    here.driver = c.driver;
    const Verdict verdict = judge(c.file, here);
    EXPECT_EQ(name(verdict.kind), name(c.wanted)) << c.what << ": " << verdict.sentence;
    EXPECT_NE(verdict.sentence.find(c.sentence), std::string::npos) << c.what << ": " << verdict.sentence;
    EXPECT_EQ(verdict.sentence.rfind(std::string(name(c.wanted)) + ":", 0), 0u) << verdict.sentence;
  }
}

TEST(Judge, each_field_is_listed_with_what_was_found_and_wanted) {
  backend::Caps here;
  here.target = "cuda";
  here.device = "h200";
  here.arch = "sm_90a";
  here.driver = "CUDA 13.0";
  const Verdict verdict = judge({"cuda", "t4", "sm_75", "CUDA 13.0", 1, "", ""}, here);
  ASSERT_EQ(verdict.fields.size(), 5u);
  EXPECT_EQ(verdict.fields[1].field, "arch");
  EXPECT_EQ(verdict.fields[1].found, "sm_75");
  EXPECT_EQ(verdict.fields[1].wanted, "sm_90a");
  EXPECT_FALSE(verdict.fields[1].matches);
  EXPECT_TRUE(verdict.fields[3].matches);
}

}  // namespace

}  // namespace rtx::bundle
