#include "common/trace/otlp_json.h"

#include <vector>

#include "common/version.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

Span ASpan() {
  const auto context = ParseTraceparent(
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  return {.trace_id = context->trace_id,
          .span_id = context->span_id,
          .name = "queue",
          .start_ns = 1'795'846'002'123'456'789,
          .end_ns = 1'795'846'002'123'456'790};
}

// The mapping of opentelemetry-proto: ids are hex digits and not base64, 64-bit
// integers are strings as in proto3's JSON, and enums are numbers.
TEST(OtlpJsonTest, HasTheFormOfTheStandard) {
  Span span = ASpan();
  span.parent = SpanId{1, 2, 3, 4, 5, 6, 7, 8};
  span.kind = SpanKind::kServer;
  span.attributes = {{"count", int64_t{9'007'199'254'740'993}},
                     {"share", 0.5},
                     {"kept", true},
                     {"text", std::string("a \"b\"")}};
  span.error = "deadline";
  const auto json = nlohmann::json::parse(
      ToOtlpJson({.service = "bole-test", .instance = "host:7"}, {&span, 1}));
  const auto want = nlohmann::json::parse(R"({"resourceSpans": [{
    "resource": {"attributes": [
      {"key": "service.name", "value": {"stringValue": "bole-test"}},
      {"key": "service.version", "value": {"stringValue": "VERSION"}},
      {"key": "service.instance.id", "value": {"stringValue": "host:7"}}]},
    "scopeSpans": [{
      "scope": {"name": "bole", "version": "VERSION"},
      "spans": [{
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        "spanId": "00f067aa0ba902b7",
        "parentSpanId": "0102030405060708",
        "name": "queue",
        "kind": 2,
        "startTimeUnixNano": "1795846002123456789",
        "endTimeUnixNano": "1795846002123456790",
        "attributes": [
          {"key": "count", "value": {"intValue": "9007199254740993"}},
          {"key": "share", "value": {"doubleValue": 0.5}},
          {"key": "kept", "value": {"boolValue": true}},
          {"key": "text", "value": {"stringValue": "a \"b\""}}],
        "status": {"code": 2, "message": "deadline"}}]}]}]})");
  auto named = want;
  auto& of = named["resourceSpans"][0];
  of["resource"]["attributes"][1]["value"]["stringValue"] = kVersion;
  of["scopeSpans"][0]["scope"]["version"] = kVersion;
  EXPECT_EQ(json, named) << json.dump(2);
}

TEST(OtlpJsonTest, WhatIsNotThereIsLeftOut) {
  const std::vector<Span> spans = {ASpan(), ASpan()};
  const auto json = nlohmann::json::parse(
      ToOtlpJson({.service = "s", .instance = "i"}, spans));
  const auto& list = json["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_FALSE(list[0].contains("parentSpanId"));
  EXPECT_EQ(list[0]["kind"], 1);
  EXPECT_EQ(list[0]["status"], nlohmann::json::object());
}

TEST(OtlpJsonTest, TextThatIsNoUtf8IsMended) {
  Span span = ASpan();
  span.attributes = {{"id", std::string("\xff\x01z")}};
  const auto json = nlohmann::json::parse(
      ToOtlpJson({.service = "s", .instance = "i"}, {&span, 1}));
  EXPECT_EQ(json["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
                [0]["value"]["stringValue"],
            "\xef\xbf\xbd\x01z");
}

}  // namespace
}  // namespace bole
