// Recorded messages of the version before this one are still read and served.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/links/worker_description_codec.h"
#include "tests/worker_service/serving/execute_client.h"
#include "tests/worker_service/serving/served_worker.h"
#include "worker_service/serving/worker_service.h"

namespace bole {
namespace {

using ::bole::testing::ExecuteClient;
using ::bole::testing::ServedWorker;
namespace wire = worker::v1;

template <typename Message>
Message Recorded(const std::string& name) {
  std::ifstream file("tests/golden/protocol/version_2/" + name,
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
  EXPECT_EQ(worker.protocol_version, 2u);
  EXPECT_FALSE(worker.synthetic);
  EXPECT_EQ(worker.fingerprint.config.substr(0, 8), "068edc12");
  // What came later.
  EXPECT_TRUE(worker.row_buckets.empty());
  EXPECT_TRUE(worker.request_buckets.empty());
  EXPECT_EQ(worker.costs, nullptr);
  EXPECT_EQ(worker.slot_bytes, 0u);
  EXPECT_EQ(worker.page_bytes, 0u);
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

// What the recorded plan was answered with: a chunk and two trees.
StepResult RecordedResult() {
  const absl::StatusOr<StepResult> result =
      DecodeResult(Recorded<wire::ExecuteResponse>("execute_response.binpb")
                       .outcome()
                       .result());
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(StepResult());
}

TEST(NeighboursTest, AResultOfTheVersionBeforeIsRead) {
  const StepResult result = RecordedResult();

  ASSERT_EQ(result.prefills.size(), 1u);
  EXPECT_EQ(result.prefills[0].committed, 81);
  ASSERT_EQ(result.sequences.size(), 2u);
  EXPECT_EQ(result.sequences[1].committed, 82);
  EXPECT_EQ(result.sequences[1].emitted.size(), 1u);
  ASSERT_TRUE(result.sequences[1].proposal);
  EXPECT_EQ(result.sequences[1].proposal->size(), 31);
}

// The result that the engine gives, byte for byte as the version before wrote
// it.
TEST(NeighboursTest, ASchedulerGetsResultsThatItKnows) {
  ServedWorker worker(
      {.info = {.limits = RecordedWorker().limits, .has_drafter = true}});
  worker.engine.AnswerWith(RecordedResult());
  ExecuteClient client(worker.channel());

  client.Send(Recorded<wire::ExecuteRequest>("hello.binpb"));
  client.Send(Recorded<wire::ExecuteRequest>("plan_request.binpb"));

  client.ReceiveOpened();
  const wire::StepResult got = client.ReceiveOutcome().result();
  EXPECT_EQ(got.SerializeAsString(),
            Recorded<wire::ExecuteResponse>("execute_response.binpb")
                .outcome()
                .result()
                .SerializeAsString());
  EXPECT_TRUE(got.sequences(1).has_raw_proposal());
}

}  // namespace
}  // namespace bole
