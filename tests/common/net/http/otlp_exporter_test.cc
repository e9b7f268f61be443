#include "common/net/http/otlp_exporter.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/net/http/server_tls.h"
#include "common/trace/span.h"
#include "common/trace/trace_context.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "tests/common/net/http/echo_server.h"
#include "tests/common/net/test_certificates.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using ::bole::testing::CertifiedKey;
using ::bole::testing::EchoServer;
using ::bole::testing::TestAuthority;

TEST(OtlpExporterTest, WhatCannotBeSentToIsRefusedByItsFlag) {
  const ScopedDirectory directory;
  const std::string no_pem = directory.Write("no.pem", "nothing");
  for (const auto& [collector, flag] :
       std::vector<std::pair<OtlpCollector, std::string>>{
           {{.endpoint = "a:1"}, "--otlp-endpoint"},
           {{.endpoint = "ftp://a:1/x"}, "--otlp-endpoint"},
           {{.endpoint = "http://a:1/x", .ca_file = no_pem}, "--otlp-ca"},
           {{.endpoint = "https://a:1/x", .ca_file = no_pem}, "--otlp-ca"},
           {{.endpoint = "https://a:1/x", .ca_file = "no/such"}, "--otlp-ca"},
           {{.ca_file = no_pem}, "--otlp-ca"}}) {
    prometheus::Registry registry;

    const auto exporter =
        StartOtlpExporter(collector, "bole-test", registry, /*note=*/nullptr);

    EXPECT_TRUE(absl::IsInvalidArgument(exporter.status()));
    const std::string message(exporter.status().message());
    EXPECT_EQ(message.rfind(flag, 0), 0u) << message;
    const std::string& value =
        flag == "--otlp-ca" ? collector.ca_file : collector.endpoint;
    EXPECT_NE(message.find(value), std::string::npos) << message;
  }
}

TEST(OtlpExporterTest, NoEndpointIsNoExporter) {
  prometheus::Registry registry;

  const auto exporter =
      StartOtlpExporter({}, "bole-test", registry, /*note=*/nullptr);

  ASSERT_EQ(exporter.status(), absl::OkStatus());
  EXPECT_EQ(*exporter, nullptr);
}

TEST(OtlpExporterTest, SpansGoToACollectorThroughTls) {
  const ScopedDirectory directory;
  const TestAuthority authority("authority");
  const CertifiedKey pair = authority.Issue("localhost");
  auto tls =
      ServerTls::Open({.files = {.cert = directory.Write("cert.pem", pair.cert),
                                 .key = directory.Write("key.pem", pair.key)}});
  ASSERT_TRUE(tls.ok()) << tls.status();
  const EchoServer server({.tls = *std::move(tls)});
  prometheus::Registry registry;
  auto exporter = StartOtlpExporter(
      {.endpoint =
           "https://localhost:" + std::to_string(server.port()) + "/v1/traces",
       .ca_file = directory.Write("ca.pem", authority.cert())},
      "bole-test", registry, /*note=*/nullptr);
  ASSERT_EQ(exporter.status(), absl::OkStatus());

  (*exporter)->Add({Span{
      .trace_id = NewTraceId(), .span_id = NewSpanId(), .name = "a span"}});
  exporter->reset();  // Sends what waits.

  const std::string page =
      prometheus::TextSerializer().Serialize(registry.Collect());
  EXPECT_NE(page.find("bole_spans_total{outcome=\"exported\"} 1\n"),
            std::string::npos)
      << page;
}

}  // namespace
}  // namespace bole
