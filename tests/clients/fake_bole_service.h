// A scheduler that says what a test tells it to.
#ifndef BOLE_TESTS_CLIENTS_FAKE_BOLE_SERVICE_H_
#define BOLE_TESTS_CLIENTS_FAKE_BOLE_SERVICE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "grpcpp/server.h"
#include "proto/bole.grpc.pb.h"
#include "proto/peers.grpc.pb.h"

namespace bole::testing_support {

// An answer to Generate.
struct FakeAnswer {
  std::vector<v1::GenerateResponse> responses = {};
  bool hang = false;  // After the responses, until the call is cancelled.
  grpc::Status status = grpc::Status::OK;  // The call's, if it does not hang.
};

// What a server with a full queue answers, as the scheduler says it.
FakeAnswer QueueIsFull(const std::string& message, int retry_after_ms);

// Chunks of one token each with these texts, and the complete message, which
// repeats them if the client does not stream.
FakeAnswer AnswerOf(const std::vector<std::string>& chunk_texts);

// Tokenizes into bytes. Thread-safe but for what is set before the calls.
class FakeBoleService final : public v1::BoleService::CallbackService {
 public:
  v1::GetModelInfoResponse model;
  v1::GetServerInfoResponse server;
  v1::ListWorkersResponse workers;
  v1::GetLoadResponse load;
  v1::AuditResponse audit;
  v1::DumpRoundsResponse rounds;

  // The answers to the calls to come; the last stays.
  void SetAnswers(std::vector<FakeAnswer> answers);

  // From now on answers are made from requests.
  void SetAnswer(
      std::function<FakeAnswer(const v1::GenerateRequest& request)> answer);

  // The requests of all Generate calls so far.
  std::vector<v1::GenerateRequest> requests() const;

  // What the latest Generate or Tokenize call had of this metadata, or "".
  std::string metadata(const std::string& key) const;

  // Returns once clients have cancelled `count` calls of Generate.
  void WaitForCancelled(int count);
  void CountCancelled();

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context,
      const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(
      grpc::CallbackServerContext* context,
      const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(
      grpc::CallbackServerContext* context,
      const v1::GetModelInfoRequest* request,
      v1::GetModelInfoResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::GetServerInfoResponse* response) override;

 private:
  void KeepMetadata(const grpc::CallbackServerContext& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<FakeAnswer> answers_ ABSL_GUARDED_BY(mutex_);
  std::function<FakeAnswer(const v1::GenerateRequest&)> answer_
      ABSL_GUARDED_BY(mutex_);
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> metadata_ ABSL_GUARDED_BY(mutex_);
  int num_cancelled_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Answers with what the other one was told.
class FakeAdmin final : public v1::Admin::CallbackService {
 public:
  explicit FakeAdmin(const FakeBoleService& told) : told_(told) {}

  grpc::ServerUnaryReactor* ListWorkers(
      grpc::CallbackServerContext* context,
      const v1::ListWorkersRequest* request,
      v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest* request,
                                    v1::GetLoadResponse* response) override;
  grpc::ServerUnaryReactor* Audit(grpc::CallbackServerContext* context,
                                  const v1::AuditRequest* request,
                                  v1::AuditResponse* response) override;
  grpc::ServerUnaryReactor* DumpRounds(
      grpc::CallbackServerContext* context,
      const v1::DumpRoundsRequest* request,
      v1::DumpRoundsResponse* response) override;

 private:
  const FakeBoleService& told_;
};

// Who shares its workers, once it is set.
class FakePeersService final : public peer::v1::Peers::CallbackService {
 public:
  std::optional<peer::v1::GetSharesResponse> shares;

  grpc::ServerUnaryReactor* GetShares(
      grpc::CallbackServerContext* context,
      const peer::v1::GetSharesRequest* request,
      peer::v1::GetSharesResponse* response) override;
};

// The services, serving on a free port with grpc.health.v1.
class FakeServer {
 public:
  FakeServer();
  ~FakeServer();

  FakeBoleService& service() { return service_; }
  FakePeersService& peers() { return peers_; }
  std::string address() const;

  // What health says of bole.v1.BoleService; at first that it serves.
  void SetServing(bool serving);

 private:
  FakeBoleService service_;
  FakeAdmin admin_{service_};
  FakePeersService peers_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_CLIENTS_FAKE_BOLE_SERVICE_H_
