#include "scheduler_service/watch/request_watch.h"

#include <utility>

#include "scheduler_service/jobs/failure.h"

namespace bole {
namespace {

using Attributes = std::vector<std::pair<std::string, SpanValue>>;

// The most characters of a client's text in a line of the log.
constexpr size_t kMaxLoggedId = 128;

int64_t UnixNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Names a failure by its reason only: messages may quote what a client sent.
std::string ReasonOf(const absl::Status& status) {
  if (const auto reason = FailureReasonOf(status)) return NameOf(*reason);
  return absl::StatusCodeToString(status.code());
}

}  // namespace

CallWatch::CallWatch(const RequestWatcherOptions& options,
                     WatchedRequest request)
    : options_(options),
      caller_(ParseTraceparent(request.traceparent)),
      arrival_(request.arrival),
      arrival_ns_(UnixNow() -
                  std::chrono::nanoseconds(std::chrono::steady_clock::now() -
                                           request.arrival)
                      .count()),
      id_(request.id.substr(0, kMaxLoggedId)),
      tenant_(std::move(request.tenant)) {
  context_.trace_id = caller_ ? caller_->trace_id : NewTraceId();
  context_.span_id = NewSpanId();
  context_.sampled = caller_
                         ? caller_->sampled
                         : IsSampled(context_.trace_id, options.sample_rate);
  sampled_ = context_.sampled && options.spans != nullptr;
}

CallWatch::~CallWatch() {
  if (!sampled_) return;
  const TimePoint now = std::chrono::steady_clock::now();
  if (first_token_) AddSpan("delivery", *first_token_, now, {});
  Span call{.trace_id = context_.trace_id,
            .span_id = context_.span_id,
            .name = "generate",
            .kind = SpanKind::kServer,
            .start_ns = arrival_ns_,
            .end_ns = UnixNanoseconds(now),
            .attributes = {{"bole.request_id", id_}},
            .error = error_};
  if (caller_) call.parent = caller_->span_id;
  if (!tenant_.empty()) call.attributes.emplace_back("bole.tenant", tenant_);
  if (!model_.empty()) {
    call.attributes.emplace_back("gen_ai.request.model", model_);
  }
  spans_.push_back(std::move(call));
  options_.spans->Add(std::move(spans_));
}

void CallWatch::Refused(const Refusal& refusal) {
  const std::string reason = NameOf(refusal.reason);
  error_ = reason;
  AddSpan("admission", arrival_, std::chrono::steady_clock::now(), {}, reason);
  if (options_.logged == LoggedRequests::kNone) return;
  Log(LogLevel::kWarning, "a request was refused", {{"reason", reason}});
}

void CallWatch::Read(const std::string& id, const std::string& tenant,
                     const std::string& model, int prompt_tokens) {
  id_ = id.substr(0, kMaxLoggedId);
  tenant_ = tenant;
  model_ = model;
  prompt_tokens_ = prompt_tokens;
  AddSpan("admission", arrival_, std::chrono::steady_clock::now(),
          {{"bole.prompt_tokens", int64_t{prompt_tokens}}});
}

std::shared_ptr<RequestWatch> CallWatch::Choice(uint32_t index) {
  return std::make_shared<RequestWatch>(shared_from_this(), index);
}

void CallWatch::AddSpan(std::string name, TimePoint start, TimePoint end,
                        Attributes attributes, std::string error, SpanId id) {
  if (!sampled_) return;
  spans_.push_back({.trace_id = context_.trace_id,
                    .span_id = id,
                    .parent = context_.span_id,
                    .name = std::move(name),
                    .start_ns = UnixNanoseconds(start),
                    .end_ns = UnixNanoseconds(end),
                    .attributes = std::move(attributes),
                    .error = std::move(error)});
}

void CallWatch::Log(LogLevel level, const char* message,
                    std::vector<LogField> fields) const {
  if (options_.log == nullptr) return;
  std::vector<LogField> all = {{"request_id", id_},
                               {"tenant", tenant_},
                               {"trace_id", ToHex(context_.trace_id)}};
  if (!model_.empty()) all.emplace_back("model", model_);
  for (LogField& field : fields) all.push_back(std::move(field));
  options_.log->Write(level, message, all);
}

int64_t CallWatch::UnixNanoseconds(TimePoint time) const {
  return arrival_ns_ + std::chrono::nanoseconds(time - arrival_).count();
}

RequestWatch::RequestWatch(std::shared_ptr<CallWatch> call, uint32_t index)
    : call_(std::move(call)),
      index_(index),
      since_(std::chrono::steady_clock::now()),
      span_id_(NewSpanId()) {}

void RequestWatch::Placed(TimePoint now, const std::string& worker) {
  EndPhase(now, "");
  phase_ = Phase::kPrefill;
  worker_ = worker;
}

void RequestWatch::Advanced(TimePoint now, int tokens) {
  if (!call_->first_token_) call_->first_token_ = now;
  if (phase_ == Phase::kPrefill) {  // Its last chunk emitted these.
    EndPhase(now, "");
    phase_ = Phase::kRounds;
    return;
  }
  ++rounds_;
  tokens_ += tokens;
}

void RequestWatch::Displaced(TimePoint now, const char* reason) {
  EndPhase(now, reason);
  phase_ = Phase::kQueue;
  if (call_->options_.logged == LoggedRequests::kNone) return;
  call_->Log(LogLevel::kWarning, "a request lost its place",
             {{"choice", int64_t{index_}},
              {"reason", std::string(reason)},
              {"worker", worker_}});
}

void RequestWatch::Ended(TimePoint now, const absl::StatusOr<Completion>& end,
                         int output_tokens) {
  const std::string error = end.ok() ? "" : ReasonOf(end.status());
  accepted_drafts_ = end.ok() ? end->accepted_drafts : 0;
  EndPhase(now, error);
  if (!end.ok()) call_->error_ = error;
  const LoggedRequests logged = call_->options_.logged;
  if (logged == LoggedRequests::kNone ||
      (end.ok() && logged != LoggedRequests::kAll)) {
    return;
  }
  std::vector<LogField> fields = {
      {"choice", int64_t{index_}},
      {"prompt_tokens", int64_t{call_->prompt_tokens_}},
      {"output_tokens", int64_t{output_tokens}},
      {"seconds", Seconds(now - call_->arrival_)}};
  if (end.ok()) {
    fields.emplace_back("accepted_drafts", int64_t{end->accepted_drafts});
    fields.emplace_back("cached_tokens", int64_t{end->cached_tokens});
  } else {
    fields.emplace_back("reason", error);
  }
  call_->Log(end.ok() ? LogLevel::kInfo : LogLevel::kWarning,
             end.ok() ? "a request ended" : "a request failed",
             std::move(fields));
}

std::optional<TraceContext> RequestWatch::span() const {
  if (!call_->is_sampled()) return std::nullopt;
  return TraceContext{.trace_id = call_->context().trace_id,
                      .span_id = span_id_,
                      .sampled = true};
}

void RequestWatch::EndPhase(TimePoint now, const std::string& error) {
  const std::pair<std::string, SpanValue> choice = {"bole.choice",
                                                    int64_t{index_}};
  switch (phase_) {
    case Phase::kQueue:
      call_->AddSpan("queue", since_, now, {choice}, error, span_id_);
      break;
    case Phase::kPrefill:
      call_->AddSpan("prefill", since_, now,
                     {choice,
                      {"bole.worker", worker_},
                      {"bole.prompt_tokens", int64_t{call_->prompt_tokens_}}},
                     error, span_id_);
      break;
    case Phase::kRounds:
      call_->AddSpan("rounds", since_, now,
                     {choice,
                      {"bole.worker", worker_},
                      {"bole.rounds", rounds_},
                      {"bole.tokens", tokens_},
                      {"bole.accepted_drafts", accepted_drafts_}},
                     error, span_id_);
      break;
  }
  since_ = now;
  span_id_ = NewSpanId();
  rounds_ = 0;
  tokens_ = 0;
}

}  // namespace bole
