// What a process tells of itself: CertificateMetrics, ProcessMetrics, and both
// on one MetricsPage.
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/net/certificate_metrics.h"
#include "common/net/metrics_page.h"
#include "common/net/pem_files.h"
#include "common/net/process_metrics.h"
#include "common/version.h"
#include "gtest/gtest.h"
#include "tests/common/net/test_certificates.h"

namespace bole {
namespace {

using testing::TestAuthority;

double Now() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string Written(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

// By the label "use".
std::map<std::string, double> EndsOf(const CertificateMetrics& metrics) {
  std::map<std::string, double> ends;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    EXPECT_EQ(family.name, "bole_certificate_expiry_timestamp_seconds");
    for (const prometheus::ClientMetric& metric : family.metric) {
      ends[metric.label.at(0).value] = metric.gauge.value;
    }
  }
  return ends;
}

TEST(CertificateMetricsTest, TellsWhenEachChainEnds) {
  const TestAuthority authority("ca");
  const std::string path = Written("cert.pem", authority.Issue("a").cert);
  const CertificateMetrics metrics(
      {{.use = "server", .path = path}, {.use = "peer_client", .path = ""}});

  const auto ends = EndsOf(metrics);

  // TestAuthority's certificates began an hour ago, for a day.
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_NEAR(ends.at("server"), Now() + 23 * 3600, 2 * 3600);
}

TEST(CertificateMetricsTest, FollowsItsFileAndSaysWhenItIsGone) {
  const TestAuthority authority("ca");
  const std::string path = Written("follow.pem", "no certificate");
  const CertificateMetrics metrics({{.use = "server", .path = path}});
  EXPECT_EQ(EndsOf(metrics).at("server"), 0);

  Written("follow.pem", authority.Issue("a").cert);

  EXPECT_GT(EndsOf(metrics).at("server"), Now());
}

TEST(CertificateMetricsTest, NoCertificateIsNoFamily) {
  const CertificateMetrics metrics(
      std::vector<UsedCertificate>{{.use = "server", .path = ""}});

  EXPECT_TRUE(metrics.Collect().empty());
}

TEST(PemFilesTest, OfAChainTheFirstEndCounts) {
  const TestAuthority authority("ca");
  const std::string own = authority.Issue("a").cert;
  const auto alone = EndOfCertificates(Written("own.pem", own));
  const auto chain =
      EndOfCertificates(Written("chain.pem", own + authority.cert()));

  ASSERT_TRUE(alone.ok() && chain.ok());
  EXPECT_LE(*chain, *alone);
  const auto none = EndOfCertificates("/no/such.pem");
  EXPECT_EQ(none.status().message(),
            "/no/such.pem cannot be read, or is no certificate in PEM");
}

TEST(ProcessMetricsTest, TellsOfThisProcess) {
  const std::vector<prometheus::MetricFamily> families =
      ProcessMetrics("worker").Collect();
  std::map<std::string, double> values;
  for (const prometheus::MetricFamily& family : families) {
    const prometheus::ClientMetric& metric = family.metric.at(0);
    values[family.name] = family.type == prometheus::MetricType::Counter
                              ? metric.counter.value
                              : metric.gauge.value;
  }

  EXPECT_EQ(families.at(0).metric.at(0).label.at(0).value, "worker");
  EXPECT_EQ(families.at(0).metric.at(0).label.at(1).value, kVersion);
  // A test starts and ends within minutes; the boot time is in whole seconds.
  EXPECT_NEAR(values.at("process_start_time_seconds"), Now(), 600);
  EXPECT_GT(values.at("process_resident_memory_bytes"), 1 << 20);
  EXPECT_LT(values.at("process_resident_memory_bytes"), 1LL << 33);
  EXPECT_GE(values.at("process_open_fds"), 3);
  EXPECT_EQ(values.at("process_max_fds"), sysconf(_SC_OPEN_MAX));
  EXPECT_LT(values.at("process_cpu_seconds_total"), 600);
}

TEST(MetricsPageTest, HasTheFamiliesOfAllItsSources) {
  MetricsPage page;
  page.Add(std::make_shared<ProcessMetrics>("worker"));
  const size_t of_one = page.Collect().size();
  page.Add(std::make_shared<CertificateMetrics>(
      std::vector<UsedCertificate>{{.use = "server", .path = "/no/such.pem"}}));

  EXPECT_GT(of_one, 4u);
  EXPECT_EQ(page.Collect().size(), of_one + 1);
}

}  // namespace
}  // namespace bole
