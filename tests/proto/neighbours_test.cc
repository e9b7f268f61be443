// Recorded messages of the version before this one are still read and served.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model_fingerprint.h"
#include "gtest/gtest.h"
#include "proto/worker.pb.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/links/worker_description_codec.h"
#include "tests/worker_service/execute_client.h"
#include "tests/worker_service/served_worker.h"
#include "worker_service/worker_service.h"

namespace bole {
namespace {

using ::bole::testing::ExecuteClient;
using ::bole::testing::ServedWorker;
namespace wire = worker::v1;

template <typename Message>
Message Recorded(const std::string& name) {
  std::ifstream file("tests/golden/protocol/version_0/" + name,
                     std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Message message;
  EXPECT_TRUE(!bytes.empty() && message.ParseFromString(bytes)) << name;
  return message;
}

WorkerDescription RecordedWorker() {
  const absl::StatusOr<WorkerDescription> worker = DecodeDescription(
      Recorded<wire::DescribeResponse>("describe_response.binpb"));
  EXPECT_TRUE(worker.ok()) << worker.status();
  return worker.value_or(WorkerDescription());
}

TEST(NeighboursTest, AWorkerOfTheVersionBeforeIsDescribed) {
  const WorkerDescription worker = RecordedWorker();

  EXPECT_EQ(worker.model, "demo");
  EXPECT_EQ(worker.limits.max_context, 1024);
  EXPECT_EQ(worker.stop_tokens, (std::vector<int32_t>{8187, 8189}));
  EXPECT_EQ(worker.temperature, 0.7f);
  EXPECT_EQ(worker.protocol_version, 0u);
  EXPECT_FALSE(worker.synthetic);
  EXPECT_EQ(worker.fingerprint, ModelFingerprint());
}

TEST(NeighboursTest, ASchedulerOfTheVersionBeforeIsServed) {
  const WorkerDescription recorded = RecordedWorker();
  ServedWorker worker(
      {.info = {.limits = recorded.limits, .has_drafter = true}});
  ExecuteClient client(worker.channel());

  client.Send(Recorded<wire::ExecuteRequest>("hello.binpb"));
  client.Send(Recorded<wire::ExecuteRequest>("plan_request.binpb"));

  EXPECT_EQ(client.ReceiveOpened().epoch(), 1'763'921'600'000'000u);
  const wire::StepOutcome outcome = client.ReceiveOutcome();
  EXPECT_EQ(outcome.sequence(), 1u);
  EXPECT_TRUE(outcome.has_result()) << outcome.refusal().message();
}

}  // namespace
}  // namespace bole
