// Names of devices.
#include "worker_service/loading/choose_backend.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

absl::Status Chosen(const std::string& device) {
  return ChooseBackend(device, /*num_threads=*/1).status();
}

TEST(ChooseBackendTest, ACpuIsAlwaysThere) {
  EXPECT_TRUE(Chosen("cpu").ok()) << Chosen("cpu");
}

TEST(ChooseBackendTest, OtherNamesAreToldWithTheValue) {
  for (const std::string device : {"gpu", "cuda2", "cuda:", "cuda:x", "cuda:-1",
                                   "cuda:1,", "cuda:1,x", "cuda:1:float16"}) {
    SCOPED_TRACE(device);
    EXPECT_EQ(Chosen(device),
              absl::InvalidArgumentError(
                  "device is \"" + device +
                  "\", not cpu, cuda, cuda:N, cuda:N,M, cuda:N:float32 or "
                  "auto"));
  }
}

TEST(ChooseBackendTest, RanksHaveAGpuEach) {
  EXPECT_EQ(Chosen("cuda:2,0,2"),
            absl::InvalidArgumentError(
                "device is \"cuda:2,0,2\", which has GPU 2 twice"));
  EXPECT_EQ(Chosen("cuda:2,3"),
            absl::InvalidArgumentError("2 GPUs for 1 rank"));
}

TEST(ChooseBackendTest, AutoIsADeviceThatIsThere) {
  const absl::StatusOr<std::string> device = ResolveDevice("auto");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_TRUE(Chosen(*device).ok()) << *device << ": " << Chosen(*device);
}

}  // namespace
}  // namespace bole
