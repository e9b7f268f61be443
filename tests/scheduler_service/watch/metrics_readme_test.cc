// The table of metrics in the README is what a scrape reads.
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "common/net/handled_calls.h"
#include "common/sha256.h"
#include "gtest/gtest.h"
#include "scheduler_service/door/access.h"
#include "scheduler_service/door/door_metrics.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/links/peer_table.h"
#include "scheduler_service/links/share.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/watch/metrics.h"
#include "scheduler_service/watch/request_watcher.h"
#include "scheduler_service/watch/scheduler_status.h"
#include "scheduler_service/watch/share_metrics.h"

namespace bole {
namespace {

// Every `bole_...` of the README, without labels.
std::set<std::string> DocumentedNames() {
  std::ifstream file("scheduler_service/README.md");
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  const std::regex name("`(bole_[a-z0-9_]+)");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end;
       ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

TEST(MetricsReadmeTest, HasTheNamesThatAreServedAndNoOthers) {
  Metrics metrics;
  metrics.Of("demo");
  SchedulerStatus status;
  status.workers = {
      {.name = "worker",
       .description = std::make_shared<const WorkerDescription>()}};
  metrics.SetLoad(status, AdmissionLoad());
  const DoorMetrics door_metrics(*metrics.registry());
  const std::string tokens = ::testing::TempDir() + "/tokens";
  std::ofstream(tokens) << Sha256Hex("token") << " blue generate\n";
  const auto access = Access::Open({.path = tokens}, *metrics.registry());
  ASSERT_TRUE(access.ok()) << access.status();
  const auto watcher =
      RequestWatcher::Start({}, *metrics.registry(), /*note=*/nullptr);
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  const HandledCalls handled(*metrics.registry(), {"/a.Service/Stream"});
  ShareMetrics share_metrics(*metrics.registry());
  share_metrics.Set({.models = {{.model = "demo", .place = Place()}}},
                    PeerView());
  std::set<std::string> served;
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    served.insert(family.name);
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_FALSE(family.metric.empty())
        << family.name << " has no series before its first event";
  }

  EXPECT_GT(served.size(), 20u);
  EXPECT_EQ(DocumentedNames(), served);
}

}  // namespace
}  // namespace bole
