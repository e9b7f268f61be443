// Writes the response object and the events that build it.
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler_service/door/openai/answer_writer.h"

namespace bole {
namespace {

// Text events have tokens without their bytes; the complete part has the bytes.
AnswerJson WithoutBytes(AnswerJson logprobs) {
  for (AnswerJson& token : logprobs) {
    token.erase("bytes");
    for (AnswerJson& other : token["top_logprobs"]) other.erase("bytes");
  }
  return logprobs;
}

class ResponsesWriter : public OpenAiAnswer::Writer {
 public:
  ResponsesWriter(const OpenAiRequest& request, AnswerHead head)
      : head_(std::move(head)),
        repeated_(AnswerJson::parse(request.repeated_json)) {}

  void AppendEvents(const v1::GenerateResponse& response,
                    std::string& out) override {
    model_ = response.model();
    if (sequence_ == 0) {
      AppendResponse("response.created", out);
      AppendResponse("response.in_progress", out);
    }
    if (response.has_chunk()) return AppendNews(response.chunk(), out);
    const v1::GenerateComplete& complete = response.complete();
    AppendNews(complete, out);
    usage_.Add(complete.index(), complete.usage());
    const bool cut = complete.finish_reason() == v1::FINISH_REASON_LENGTH;
    // An answer without any output is an empty message.
    if (output_.empty()) Open("message", out);
    Close(cut ? "incomplete" : "completed", out);
    status_ = cut ? "incomplete" : "completed";
  }

  void AppendEnd(std::string& out) override {
    AppendResponse(absl::StrCat("response.", status_), out);
  }

  void AppendError(const OpenAiError& error, std::string& out) override {
    AnswerJson event = {
        {"code", error.code}, {"message", error.message}, {"param", nullptr}};
    if (!error.param.empty()) event["param"] = error.param;
    Append("error", event, out);
  }

  void Add(const v1::GenerateResponse& response) override {
    std::string events;  // Nobody reads them.
    AppendEvents(response, events);
  }

  std::string Whole() const override { return ToText(ResponseJson()); }

 private:
  AnswerJson ResponseJson() const {
    AnswerJson json = {{"id", head_.id},
                       {"object", "response"},
                       {"created_at", head_.created},
                       {"status", status_},
                       {"error", nullptr},
                       {"incomplete_details", nullptr},
                       {"model", model_},
                       {"output", output_},
                       {"store", false},
                       {"background", false},
                       {"previous_response_id", nullptr},
                       {"truncation", "disabled"},
                       {"text", {{"format", {{"type", "text"}}}}}};
    if (status_ == "incomplete") {
      json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    }
    if (status_ != "in_progress") json["usage"] = UsageJson();
    json.update(repeated_);
    return json;
  }

  // The number of reasoning tokens is reported only if there were none, because
  // they are not counted separately. Caching a prompt has no price, so no cache
  // writes are reported.
  AnswerJson UsageJson() const {
    AnswerJson json = {
        {"input_tokens", usage_.prompt_tokens()},
        {"input_tokens_details",
         {{"cached_tokens", usage_.cached_tokens()},
          {"cache_write_tokens", 0}}},
        {"output_tokens", usage_.completion_tokens()},
        {"output_tokens_details", AnswerJson::object()},
        {"total_tokens", usage_.prompt_tokens() + usage_.completion_tokens()}};
    if (!reasoned_) json["output_tokens_details"]["reasoning_tokens"] = 0;
    return json;
  }

  // Events repeat their name in the data, and are numbered.
  void Append(const std::string& name, const AnswerJson& members,
              std::string& out) {
    AnswerJson event = {{"type", name}, {"sequence_number", sequence_++}};
    event.update(members);
    out.append("event: ").append(name);
    out.append("\ndata: ").append(ToText(event)).append("\n\n");
  }

  void AppendResponse(const std::string& name, std::string& out) {
    Append(name, {{"response", ResponseJson()}}, out);
  }

  // Appends an event about the last item of the output.
  void AppendOfItem(const std::string& name, const AnswerJson& members,
                    std::string& out) {
    AnswerJson event = {{"item_id", output_.back()["id"]},
                        {"output_index", output_.size() - 1}};
    event.update(members);
    Append(name, event, out);
  }

  void AppendItem(const char* name, std::string& out) {
    Append(name,
           {{"output_index", output_.size() - 1}, {"item", output_.back()}},
           out);
  }

  bool IsOpen(const char* type) const {
    return open_ && output_.back()["type"] == type;
  }

  AnswerJson& Part() { return output_.back()["content"][0]; }

  // Begins an item of one part, a message or reasoning.
  void Open(const char* type, std::string& out) {
    if (IsOpen(type)) return;
    Close("completed", out);
    const bool message = std::string_view(type) == "message";
    AnswerJson item = {{"id", absl::StrCat(message ? "msg_" : "rs_", head_.id,
                                           "_", output_.size())},
                       {"type", type},
                       {"status", "in_progress"},
                       {"content", AnswerJson::array()}};
    AnswerJson part;
    if (message) {
      item["role"] = "assistant";
      part = {{"type", "output_text"},
              {"text", ""},
              {"annotations", AnswerJson::array()},
              {"logprobs", AnswerJson::array()}};
    } else {
      item["summary"] = AnswerJson::array();
      part = {{"type", "reasoning_text"}, {"text", ""}};
    }
    output_.push_back(std::move(item));
    open_ = true;
    AppendItem("response.output_item.added", out);
    output_.back()["content"].push_back(part);
    AppendOfItem("response.content_part.added",
                 {{"content_index", 0}, {"part", std::move(part)}}, out);
  }

  void Close(const char* status, std::string& out) {
    if (!std::exchange(open_, false)) return;
    AnswerJson done = {{"content_index", 0}, {"text", Part()["text"]}};
    if (output_.back()["type"] == "message") {
      done["logprobs"] = WithoutBytes(Part()["logprobs"]);
      AppendOfItem("response.output_text.done", done, out);
    } else {
      AppendOfItem("response.reasoning_text.done", done, out);
    }
    AppendOfItem("response.content_part.done",
                 {{"content_index", 0}, {"part", Part()}}, out);
    output_.back()["status"] = status;
    AppendItem("response.output_item.done", out);
  }

  template <typename Message>
  void AppendNews(const Message& message, std::string& out) {
    if (!message.reasoning_content().empty()) {
      reasoned_ = true;
      Open("reasoning", out);
      Part()["text"].get_ref<std::string&>() += message.reasoning_content();
      AppendOfItem(
          "response.reasoning_text.delta",
          {{"content_index", 0}, {"delta", message.reasoning_content()}}, out);
    }
    AppendMessageText(message, out);
    for (const v1::ToolCall& call : message.tool_calls()) AppendCall(call, out);
  }

  // Log probabilities belong to the text that they come with, or else to the
  // text that is open.
  template <typename Message>
  void AppendMessageText(const Message& message, std::string& out) {
    AnswerJson logprobs = TokenLogprobsJson(message.output_logprobs());
    if (message.text().empty() && (logprobs.empty() || !IsOpen("message"))) {
      return;
    }
    Open("message", out);
    Part()["text"].get_ref<std::string&>() += message.text();
    for (const AnswerJson& token : logprobs) {
      Part()["logprobs"].push_back(token);
    }
    AppendOfItem("response.output_text.delta",
                 {{"content_index", 0},
                  {"delta", message.text()},
                  {"logprobs", WithoutBytes(std::move(logprobs))}},
                 out);
  }

  void AppendCall(const v1::ToolCall& call, std::string& out) {
    Close("completed", out);
    const std::string number = absl::StrCat(head_.id, "_", output_.size());
    output_.push_back(
        {{"id", absl::StrCat("fc_", number)},
         {"type", "function_call"},
         {"status", "in_progress"},
         {"call_id",
          call.id().empty() ? absl::StrCat("call_", number) : call.id()},
         {"name", call.name()},
         {"arguments", ""}});
    AppendItem("response.output_item.added", out);
    AppendOfItem("response.function_call_arguments.delta",
                 {{"delta", call.arguments_json()}}, out);
    AppendOfItem("response.function_call_arguments.done",
                 {{"arguments", call.arguments_json()}}, out);
    output_.back()["arguments"] = call.arguments_json();
    output_.back()["status"] = "completed";
    AppendItem("response.output_item.done", out);
  }

  const AnswerHead head_;
  const AnswerJson repeated_;
  std::string model_;
  std::string status_ = "in_progress";
  AnswerJson output_ = AnswerJson::array();
  bool open_ = false;  // The last item of the output is open; it has one part.
  bool reasoned_ = false;
  int64_t sequence_ = 0;
  UsageSum usage_;
};

}  // namespace

std::unique_ptr<OpenAiAnswer::Writer> MakeResponsesWriter(
    const OpenAiRequest& request, AnswerHead head) {
  return std::make_unique<ResponsesWriter>(request, std::move(head));
}

}  // namespace bole
