#include "clients/sdk/generate_stream.h"

#include <utility>

namespace bole {
namespace {

template <typename Message>
void Append(const Message& message,
            const google::protobuf::RepeatedField<uint32_t>& ids,
            GeneratedChoice& choice) {
  choice.text += message.text();
  choice.reasoning_content += message.reasoning_content();
  choice.ids.insert(choice.ids.end(), ids.begin(), ids.end());
  choice.tool_calls.insert(choice.tool_calls.end(),
                           message.tool_calls().begin(),
                           message.tool_calls().end());
}

}  // namespace

GenerateStream::GenerateStream(const ServerChannel& channel,
                               v1::BoleService::Stub& stub,
                               Generation generation,
                               std::optional<Generation::TimePoint> deadline,
                               Cancellation* cancellation)
    : channel_(channel),
      stub_(stub),
      deadline_(deadline),
      cancellation_(cancellation != nullptr ? cancellation
                                            : &own_cancellation_),
      generation_(std::move(generation)) {
  Begin();
}

GenerateStream::~GenerateStream() {
  if (attempt_ == nullptr) return;
  attempt_->context.TryCancel();
  while (attempt_->reader->Read(&response_)) {
  }
  attempt_->reader->Finish();
}

void GenerateStream::Begin() {
  attempt_ = std::make_unique<Attempt>();
  generation_.Begin(std::chrono::steady_clock::now());
  channel_.Prepare(attempt_->context, deadline_);
  attempt_->scope.emplace(*cancellation_, attempt_->context);
  attempt_->reader = stub_.Generate(&attempt_->context, generation_.request());
}

const v1::GenerateResponse* GenerateStream::Next() {
  while (!ended_) {
    if (attempt_ == nullptr) Begin();
    if (!attempt_->reader->Read(&response_)) {
      End();
    } else if (generation_.Take(response_)) {
      return &response_;
    } else if (!generation_.status().ok()) {
      attempt_->context.TryCancel();
    }
  }
  return nullptr;
}

void GenerateStream::End() {
  const grpc::Status status = attempt_->reader->Finish();
  attempt_.reset();
  const auto now = std::chrono::steady_clock::now();
  const auto delay = generation_.End(status, cancellation_->cancelled(), now);
  ended_ = !delay.has_value();
  if (ended_ || cancellation_->SleepUntil(now + *delay)) return;
  generation_.Cancel();
  ended_ = true;
}

absl::StatusOr<std::vector<GeneratedChoice>> ReadAll(GenerateStream& stream) {
  std::vector<GeneratedChoice> choices;
  for (const v1::GenerateResponse& response : stream) {
    const uint32_t index = response.has_chunk() ? response.chunk().index()
                                                : response.complete().index();
    if (index >= choices.size()) choices.resize(index + 1);
    GeneratedChoice& choice = choices[index];
    if (response.has_chunk()) {
      Append(response.chunk(), response.chunk().token_ids(), choice);
    } else {
      Append(response.complete(), response.complete().output_ids(), choice);
      choice.complete = response.complete();
    }
  }
  if (!stream.status().ok()) return stream.status();
  return choices;
}

}  // namespace bole
