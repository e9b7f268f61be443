#include "scheduler_service/worker_description_codec.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sampling_params.h"
#include "gtest/gtest.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"
#include "scheduler_service/worker_client.h"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

worker::v1::DescribeResponse Described() {
  worker::v1::DescribeResponse message;
  EncodeLimits(testing::TinyWorker().limits, *message.mutable_limits());
  message.mutable_defaults()->set_temperature(1);
  message.mutable_defaults()->set_top_p(1);
  return message;
}

TEST(WorkerDescriptionCodecTest, DefaultsThatAWorkerDoesNotKnowAreNeutral) {
  const absl::StatusOr<WorkerDescription> worker =
      DecodeDescription(Described());

  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(DefaultSampling(*worker), SamplingParams());
}

TEST(WorkerDescriptionCodecTest, ZeroIsAValueAndNotAbsence) {
  worker::v1::DescribeResponse message = Described();
  message.mutable_defaults()->set_repetition_penalty(0);

  EXPECT_EQ(DecodeDescription(message).status(),
            absl::InvalidArgumentError(
                "defaults: repetition_penalty is 0; allowed is (0, 100]"));
}

}  // namespace
}  // namespace bole
