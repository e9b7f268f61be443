#include "clients/cli/answer.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "clients/cli/json_output.h"
#include "clients/cli/live_text.h"
#include "clients/cli/summary.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

// Prints the responses of one call.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(AnswerFormat format)
      : format_(format), live_(StandardStreams()) {
    if (format_ == AnswerFormat::kText) live_.ShowStatus("waiting");
  }

  void Print(const v1::GenerateResponse& response) {
    if (format_ != AnswerFormat::kText) {
      std::puts(ToJson(response).c_str());
      std::fflush(stdout);
      return;
    }
    if (response.has_chunk()) {
      Write(response.chunk().text());
      ShowProgress(response.chunk().usage().completion_tokens());
    } else {
      WriteRest(response.complete().text());
    }
  }

  // No more comes.
  void End() { live_.End(); }

  const std::string& text() const { return text_; }

 private:
  void Write(std::string_view text) {
    text_ += text;
    live_.Write(text);
  }

  // What `all` has beyond the chunks.
  void WriteRest(std::string_view all) {
    if (all.starts_with(text_)) Write(all.substr(text_.size()));
  }

  void ShowProgress(uint32_t num_tokens) {
    const Clock::time_point now = Clock::now();
    if (!first_) first_ = First{.time = now, .num_tokens = num_tokens};
    live_.ShowStatus(
        Progress(static_cast<int>(num_tokens),
                 static_cast<int>(num_tokens - first_->num_tokens),
                 std::chrono::duration<double>(now - first_->time).count()));
  }

  struct First {
    Clock::time_point time;
    uint32_t num_tokens;
  };

  const AnswerFormat format_;
  LiveText live_;
  std::string text_;
  std::optional<First> first_;  // Chunk.
};

}  // namespace

Answer PrintAnswer(Connection& connection, v1::GenerateRequest request,
                   AnswerFormat format) {
  request.set_stream(format != AnswerFormat::kJson);
  request.set_model(connection.model());
  AnswerPrinter printer(format);
  Call call(connection);
  const std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader =
      connection.bole().Generate(call.context(), request);

  v1::GenerateResponse response;
  while (reader->Read(&response)) printer.Print(response);
  printer.End();
  grpc::Status status = reader->Finish();
  if (status.ok() && !response.has_complete()) {
    status = {grpc::StatusCode::INTERNAL, "the answer has no end"};
  }

  Answer answer;
  answer.text = printer.text();
  if (status.ok()) {
    answer.complete = std::move(*response.mutable_complete());
  } else {
    answer.exit_code = connection.Report(status);
  }
  return answer;
}

}  // namespace bole
