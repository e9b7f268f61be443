#include "scheduler_service/links/worker_description_codec.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cost_table.h"
#include "common/sampling_params.h"
#include "gtest/gtest.h"
#include "proto/protocol_version.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

worker::v1::DescribeResponse Described() {
  worker::v1::DescribeResponse message;
  message.set_protocol_version(kProtocolVersion);
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

  const absl::Status status = DecodeDescription(message).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "defaults: repetition_penalty is 0; allowed is (0, 100]");
}

TEST(WorkerDescriptionCodecTest, ADigestIsHexadecimalOrEmpty) {
  std::string good(64, '0');
  good.back() = 'f';
  std::string upper = good;
  upper.back() = 'F';
  std::string other = good;
  other.back() = 'g';
  for (const std::string& bad :
       {std::string(63, '0'), std::string(65, '0'), upper, other}) {
    SCOPED_TRACE(bad);
    worker::v1::DescribeResponse message = Described();
    message.mutable_fingerprint()->set_config(good);
    message.mutable_fingerprint()->set_weights(bad);

    const absl::Status status = DecodeDescription(message).status();

    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().find("fingerprint.weights is '0000"), 0u)
        << status;
  }
}

TEST(WorkerDescriptionCodecTest, NeighboursAreReadAndOthersAreNot) {
  worker::v1::DescribeResponse message = Described();

  for (const uint32_t version : {2u, 3u, 4u}) {
    message.set_protocol_version(version);
    EXPECT_TRUE(DecodeDescription(message).ok()) << version;
  }
  for (const uint32_t version : {0u, 1u, 5u, 0xffffffffu}) {
    message.set_protocol_version(version);
    EXPECT_EQ(DecodeDescription(message).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << version;
  }
}

TEST(WorkerDescriptionCodecTest, BucketsAscend) {
  worker::v1::DescribeResponse message = Described();
  for (const int rows : {1, 2, 48}) message.add_row_buckets(rows);
  message.add_request_buckets(4);
  const absl::StatusOr<WorkerDescription> worker = DecodeDescription(message);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->row_buckets, (std::vector<int>{1, 2, 48}));
  EXPECT_EQ(worker->request_buckets, std::vector<int>{4});

  message.add_row_buckets(48);
  EXPECT_EQ(DecodeDescription(message).status().message(),
            "row_buckets is 48; allowed is above 48");
  message.clear_row_buckets();
  message.add_request_buckets(-1);
  EXPECT_EQ(DecodeDescription(message).status().message(),
            "request_buckets is -1; allowed is above 4");
  message.clear_request_buckets();
  for (int i = 1; i <= 4097; ++i) message.add_row_buckets(i);
  EXPECT_EQ(DecodeDescription(message).status().message(),
            "the number of row_buckets is 4097; allowed is [0, 4096]");
}

TEST(WorkerDescriptionCodecTest, BytesOfSlotsAndPagesMayBeLeftOut) {
  worker::v1::DescribeResponse message = Described();
  EXPECT_EQ(DecodeDescription(message)->slot_bytes, 0u);
  message.set_slot_bytes(54'000'000);
  message.set_page_bytes(2'359'296);
  const absl::StatusOr<WorkerDescription> worker = DecodeDescription(message);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->slot_bytes, 54'000'000u);
  EXPECT_EQ(worker->page_bytes, 2'359'296u);

  message.set_page_bytes((uint64_t{1} << 38) + 1);
  EXPECT_EQ(DecodeDescription(message).status().message(),
            "page_bytes is 274877906945; allowed is [0, 274877906944]");
}

TEST(WorkerDescriptionCodecTest, ATableOfCostsIsReadOrNamed) {
  worker::v1::DescribeResponse message = Described();
  EXPECT_EQ(DecodeDescription(message)->costs, nullptr);
  const CostTable table{.of = {.model = "demo"}, .round_trip_seconds = 0.5};
  message.set_cost_table(ToJson(table));
  const absl::StatusOr<WorkerDescription> worker = DecodeDescription(message);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_NE(worker->costs, nullptr);
  EXPECT_EQ(worker->costs->of.model, "demo");
  EXPECT_EQ(worker->costs->round_trip_seconds, 0.5);

  message.set_cost_table("{}");
  const absl::Status status = DecodeDescription(message).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "cost_table: format is null; allowed is 1");
}

}  // namespace
}  // namespace bole
