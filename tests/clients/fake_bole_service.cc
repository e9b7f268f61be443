#include "tests/clients/fake_bole_service.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "scheduler_service/door/grpc/refusal_status.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole::testing_support {
namespace {

class AnswerReactor final
    : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  AnswerReactor(FakeAnswer answer, FakeBoleService& service)
      : answer_(std::move(answer)), service_(service) {
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    if (ok) WriteNext();
  }
  void OnCancel() override {
    service_.CountCancelled();
    End(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (next_ == answer_.responses.size()) {
      if (!answer_.hang) End(answer_.status);
      return;
    }
    MutexLock lock(mutex_);
    if (!ended_) StartWrite(&answer_.responses[next_++]);
  }
  // A client may leave at the moment at which its answer ends.
  void End(const grpc::Status& status) {
    {
      MutexLock lock(mutex_);
      if (std::exchange(ended_, true)) return;
    }
    Finish(status);  // OnDone() may come before it returns.
  }

  const FakeAnswer answer_;
  FakeBoleService& service_;
  size_t next_ = 0;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ServerUnaryReactor* Ok(grpc::CallbackServerContext* context) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace

FakeAnswer QueueIsFull(const std::string& message, int retry_after_ms) {
  return {.responses = {},
          .status = ToGrpcStatus(Refusal{
              .reason = RefusalReason::kQueueRequests,
              .message = message,
              .bound = ReachedBound{.count = 2, .max = 2},
              .retry_after = std::chrono::milliseconds(retry_after_ms)})};
}

FakeAnswer AnswerOf(const std::vector<std::string>& chunk_texts) {
  FakeAnswer answer;
  v1::GenerateResponse last;
  v1::GenerateComplete& complete = *last.mutable_complete();
  complete.mutable_usage()->set_prompt_tokens(5);
  for (const std::string& text : chunk_texts) {
    const uint32_t token = 100 + complete.output_ids_size();
    complete.add_output_ids(token);
    complete.set_text(complete.text() + text);
    complete.mutable_usage()->set_completion_tokens(complete.output_ids_size());
    v1::GenerateResponse response;
    response.mutable_chunk()->add_token_ids(token);
    response.mutable_chunk()->set_text(text);
    *response.mutable_chunk()->mutable_usage() = complete.usage();
    answer.responses.push_back(response);
  }
  complete.set_finish_reason(v1::FINISH_REASON_LENGTH);
  answer.responses.push_back(last);
  return answer;
}

void FakeBoleService::SetAnswers(std::vector<FakeAnswer> answers) {
  MutexLock lock(mutex_);
  answers_ = std::move(answers);
}

void FakeBoleService::SetAnswer(
    std::function<FakeAnswer(const v1::GenerateRequest&)> answer) {
  MutexLock lock(mutex_);
  answer_ = std::move(answer);
}

std::string FakeBoleService::metadata(const std::string& key) const {
  MutexLock lock(mutex_);
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? "" : found->second;
}

void FakeBoleService::KeepMetadata(const grpc::CallbackServerContext& context) {
  metadata_.clear();
  for (const auto& [key, value] : context.client_metadata()) {
    metadata_.emplace(std::string(key.data(), key.size()),
                      std::string(value.data(), value.size()));
  }
}

std::vector<v1::GenerateRequest> FakeBoleService::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

void FakeBoleService::WaitForCancelled(int count) {
  MutexLock lock(mutex_);
  while (num_cancelled_ < count) changed_.Wait(mutex_);
}

void FakeBoleService::CountCancelled() {
  MutexLock lock(mutex_);
  ++num_cancelled_;
  changed_.NotifyAll();
}

grpc::ServerWriteReactor<v1::GenerateResponse>* FakeBoleService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  MutexLock lock(mutex_);
  KeepMetadata(*context);
  requests_.push_back(*request);
  if (answer_) return new AnswerReactor(answer_(*request), *this);
  BOLE_CHECK(!answers_.empty());
  FakeAnswer answer = answers_[std::min(requests_.size(), answers_.size()) - 1];
  if (!request->has_stream() || request->stream()) {
    for (v1::GenerateResponse& response : answer.responses) {
      if (!response.has_complete()) continue;
      response.mutable_complete()->clear_output_ids();
      response.mutable_complete()->clear_text();
    }
  } else if (!answer.responses.empty() && !answer.hang) {
    answer.responses.erase(answer.responses.begin(),
                           answer.responses.end() - 1);
  }
  return new AnswerReactor(std::move(answer), *this);
}

grpc::ServerUnaryReactor* FakeBoleService::Tokenize(
    grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
    v1::TokenizeResponse* response) {
  {
    MutexLock lock(mutex_);
    KeepMetadata(*context);
  }
  for (const char byte : request->text()) {
    response->add_input_ids(static_cast<unsigned char>(byte));
  }
  return Ok(context);
}

grpc::ServerUnaryReactor* FakeBoleService::Detokenize(
    grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
    v1::DetokenizeResponse* response) {
  for (const uint32_t id : request->ids()) {
    response->mutable_text()->push_back(static_cast<char>(id));
  }
  return Ok(context);
}

grpc::ServerUnaryReactor* FakeBoleService::GetModelInfo(
    grpc::CallbackServerContext* context,
    const v1::GetModelInfoRequest* request,
    v1::GetModelInfoResponse* response) {
  *response = model;
  if (!request->model().empty()) response->set_model(request->model());
  return Ok(context);
}

grpc::ServerUnaryReactor* FakeBoleService::GetServerInfo(
    grpc::CallbackServerContext* context,
    const v1::GetServerInfoRequest* /*request*/,
    v1::GetServerInfoResponse* response) {
  *response = server;
  return Ok(context);
}

grpc::ServerUnaryReactor* FakeBoleService::ListModels(
    grpc::CallbackServerContext* context,
    const v1::ListModelsRequest* /*request*/,
    v1::ListModelsResponse* response) {
  *response->add_models() = model;
  return Ok(context);
}

grpc::ServerUnaryReactor* FakeAdmin::ListWorkers(
    grpc::CallbackServerContext* context,
    const v1::ListWorkersRequest* /*request*/,
    v1::ListWorkersResponse* response) {
  *response = told_.workers;
  return Ok(context);
}

grpc::ServerUnaryReactor* FakeAdmin::GetLoad(
    grpc::CallbackServerContext* context, const v1::GetLoadRequest* /*request*/,
    v1::GetLoadResponse* response) {
  *response = told_.load;
  return Ok(context);
}

grpc::ServerUnaryReactor* FakeAdmin::Audit(grpc::CallbackServerContext* context,
                                           const v1::AuditRequest* /*request*/,
                                           v1::AuditResponse* response) {
  *response = told_.audit;
  return Ok(context);
}

grpc::ServerUnaryReactor* FakeAdmin::DumpRounds(
    grpc::CallbackServerContext* context,
    const v1::DumpRoundsRequest* /*request*/,
    v1::DumpRoundsResponse* response) {
  *response = told_.rounds;
  return Ok(context);
}

grpc::ServerUnaryReactor* FakePeersService::GetShares(
    grpc::CallbackServerContext* context,
    const peer::v1::GetSharesRequest* /*request*/,
    peer::v1::GetSharesResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (shares) *response = *shares;
  reactor->Finish(shares ? grpc::Status::OK
                         : grpc::Status(grpc::UNIMPLEMENTED, "none"));
  return reactor;
}

FakeServer::FakeServer() {
  grpc::EnableDefaultHealthCheckService(true);
  service_.model.set_model("fake");
  service_.model.set_has_chat_template(true);
  service_.model.set_ready(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(&service_);
  builder.RegisterService(&admin_);
  builder.RegisterService(&peers_);
  server_ = builder.BuildAndStart();
  BOLE_CHECK(server_ != nullptr);
  SetServing(true);
}

FakeServer::~FakeServer() { server_->Shutdown(); }

std::string FakeServer::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void FakeServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus("bole.v1.BoleService",
                                                     serving);
}

}  // namespace bole::testing_support
