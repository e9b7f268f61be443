#include "scheduler_service/door/grpc/refusal_status.h"

#include <map>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(RefusalStatusTest, EveryReasonHasACodeThatSaysWhetherToComeAgain) {
  std::map<grpc::StatusCode, int> counts;
  for (const RefusalReason reason : kRefusalReasons) {
    const grpc::StatusCode code = CodeOf(reason);
    ++counts[code];

    EXPECT_EQ(code == grpc::StatusCode::RESOURCE_EXHAUSTED, IsFull(reason))
        << NameOf(reason);
  }
  EXPECT_EQ(counts.count(grpc::StatusCode::OK), 0u);
  EXPECT_EQ(counts.count(grpc::StatusCode::UNKNOWN), 0u);
}

}  // namespace
}  // namespace bole
