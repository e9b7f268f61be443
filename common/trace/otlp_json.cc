#include "common/trace/otlp_json.h"

#include <cstdint>
#include <variant>

#include "common/version.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Json = nlohmann::ordered_json;

// As opentelemetry/proto/trace/v1/trace.proto numbers them.
constexpr int kInternalKind = 1;
constexpr int kServerKind = 2;
constexpr int kErrorCode = 2;

struct ValueJson {
  Json operator()(int64_t value) const {
    return {{"intValue", std::to_string(value)}};
  }
  Json operator()(double value) const { return {{"doubleValue", value}}; }
  Json operator()(bool value) const { return {{"boolValue", value}}; }
  Json operator()(const std::string& value) const {
    return {{"stringValue", value}};
  }
};

Json AttributeJson(const std::string& key, const SpanValue& value) {
  return {{"key", key}, {"value", std::visit(ValueJson(), value)}};
}

Json SpanJson(const Span& span) {
  Json json = {{"traceId", ToHex(span.trace_id)},
               {"spanId", ToHex(span.span_id)}};
  if (span.parent) json["parentSpanId"] = ToHex(*span.parent);
  json["name"] = span.name;
  json["kind"] = span.kind == SpanKind::kServer ? kServerKind : kInternalKind;
  json["startTimeUnixNano"] = std::to_string(span.start_ns);
  json["endTimeUnixNano"] = std::to_string(span.end_ns);
  json["attributes"] = Json::array();
  for (const auto& [key, value] : span.attributes) {
    json["attributes"].push_back(AttributeJson(key, value));
  }
  json["status"] = Json::object();
  if (!span.error.empty()) {
    json["status"] = {{"code", kErrorCode}, {"message", span.error}};
  }
  return json;
}

}  // namespace

std::string ToOtlpJson(const SpanResource& resource,
                       std::span<const Span> spans) {
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(SpanJson(span));
  const Json scope_spans = {
      {"scope", {{"name", "bole"}, {"version", kVersion}}},
      {"spans", std::move(list)}};
  const Json attributes =
      Json::array({AttributeJson("service.name", resource.service),
                   AttributeJson("service.version", std::string(kVersion)),
                   AttributeJson("service.instance.id", resource.instance)});
  const Json resource_spans = {{"resource", {{"attributes", attributes}}},
                               {"scopeSpans", Json::array({scope_spans})}};
  const Json document = {{"resourceSpans", Json::array({resource_spans})}};
  return document.dump(/*indent=*/-1, /*indent_char=*/' ',
                       /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace bole
