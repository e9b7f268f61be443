#include "clients/cli/answer.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/cli/live_text.h"
#include "clients/cli/output.h"
#include "clients/sdk/generate_stream.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

// Prints the responses of one call, and keeps what came.
class AnswerPrinter {
 public:
  AnswerPrinter(AnswerFormat format, uint32_t num_choices)
      : format_(format), num_choices_(num_choices), live_(StandardStreams()) {
    if (format_ == AnswerFormat::kText) live_.ShowStatus("waiting");
  }

  void Print(const v1::GenerateResponse& response) {
    if (format_ != AnswerFormat::kText) {
      std::puts(ToJson(response).c_str());
      std::fflush(stdout);
    }
    if (response.has_chunk()) {
      Add(response.chunk());
    } else {
      const v1::GenerateComplete& complete = response.complete();
      choices_[complete.index()].text += complete.text();
      choices_[complete.index()].complete = complete;
      completed_.insert(complete.index());
    }
    if (format_ != AnswerFormat::kText) return;
    WriteWhatIsNext();
    if (response.has_chunk()) ShowProgress();
  }

  // No more comes.
  void End() { live_.End(); }

  std::map<uint32_t, AnsweredChoice> TakeChoices() {
    return std::move(choices_);
  }

 private:
  void Add(const v1::GenerateChunk& chunk) {
    prompt_ += chunk.prompt().text();
    choices_[chunk.index()].text += chunk.text();
    num_tokens_ += static_cast<uint32_t>(chunk.token_ids_size());
  }

  // Writes the new text of the choice whose turn it is. If that choice is
  // complete, goes on with those whose text had to wait for it.
  void WriteWhatIsNext() {
    for (;;) {
      if (num_choices_ > 1 && !begun_) {
        live_.Write(absl::StrCat("--- choice ", current_, "\n"));
      }
      begun_ = true;
      live_.Write(std::exchange(prompt_, ""));
      const std::string& text = choices_[current_].text;
      live_.Write(std::string_view(text).substr(num_written_));
      num_written_ = text.size();
      if (!completed_.contains(current_) || current_ + 1 == num_choices_) break;
      ++current_;
      begun_ = false;
      num_written_ = 0;
      live_.Write("\n");
    }
  }

  void ShowProgress() {
    const Clock::time_point now = Clock::now();
    if (!first_) first_ = First{.time = now, .num_tokens = num_tokens_};
    live_.ShowStatus(
        Progress(static_cast<int>(num_tokens_),
                 static_cast<int>(num_tokens_ - first_->num_tokens),
                 std::chrono::duration<double>(now - first_->time).count()));
  }

  struct First {
    Clock::time_point time;
    uint32_t num_tokens;
  };

  const AnswerFormat format_;
  const uint32_t num_choices_;
  LiveText live_;
  std::map<uint32_t, AnsweredChoice> choices_;
  std::set<uint32_t> completed_;
  std::string prompt_;          // To be written.
  uint32_t current_ = 0;        // The choice whose turn it is,
  bool begun_ = false;          // whether anything of it was written,
  size_t num_written_ = 0;      // and how much of its text was written.
  uint32_t num_tokens_ = 0;     // All choices have so many together.
  std::optional<First> first_;  // When the first chunk came.
};

}  // namespace

Answer PrintAnswer(Connection& connection, v1::GenerateRequest request,
                   AnswerFormat format) {
  request.set_stream(format != AnswerFormat::kJson);
  AnswerPrinter printer(format, request.has_n() ? request.n() : 1);
  const std::unique_ptr<GenerateStream> stream =
      connection.client().Generate(std::move(request));
  const OnInterrupt on_interrupt(connection.interrupt(),
                                 [&] { stream->Cancel(); });
  for (const v1::GenerateResponse& response : *stream) printer.Print(response);
  printer.End();

  Answer answer{.choices = printer.TakeChoices()};
  if (!stream->status().ok()) {
    answer.exit_code = connection.Report(stream->status());
  }
  return answer;
}

}  // namespace bole
