#include "scheduler_service/door/grpc/admin_codec.h"

#include <string>

namespace bole {
namespace {

void Encode(const PoolStatus& pool, v1::Pool& message) {
  message.set_total(pool.total);
  message.set_free(pool.free);
}

void Encode(const WorkerStatus& worker, v1::WorkerInfo& message) {
  message.set_address(worker.name);
  message.set_connected(worker.connected);
  message.set_epoch(worker.epoch);
  if (worker.description != nullptr) {
    message.set_device(worker.description->device);
    message.set_model(worker.description->model);
    message.set_synthetic(worker.description->synthetic);
  }
  message.set_last_error(worker.last_error);
  message.set_draining(worker.draining);
  message.set_running_requests(worker.running);
  message.set_prefilling_requests(worker.in_prefill);
  Encode(worker.slots, *message.mutable_slots());
  Encode(worker.pages, *message.mutable_pages());
}

void Encode(const ModelStatus& model, v1::Load& message) {
  message.set_model(model.name);
  message.set_running_requests(model.running);
  message.set_waiting_requests(model.waiting);
  message.set_waiting_tokens(model.waiting_tokens);
  message.set_waiting_bytes(model.waiting_bytes);
}

void AddProblem(const std::string& worker, const std::string& text,
                v1::AuditResponse& audit) {
  v1::AuditProblem& problem = *audit.add_problems();
  problem.set_worker(worker);
  problem.set_text(text);
}

}  // namespace

v1::ListWorkersResponse EncodeWorkers(const SchedulerStatus& status) {
  v1::ListWorkersResponse response;
  for (const WorkerStatus& worker : status.workers) {
    Encode(worker, *response.add_workers());
  }
  return response;
}

v1::GetLoadResponse EncodeLoad(const SchedulerStatus& status) {
  v1::GetLoadResponse response;
  ModelStatus total;
  for (const ModelStatus& model : status.models) {
    Encode(model, *response.add_models());
    total.running += model.running;
    total.waiting += model.waiting;
    total.waiting_tokens += model.waiting_tokens;
    total.waiting_bytes += model.waiting_bytes;
  }
  Encode(total, *response.mutable_total());
  return response;
}

v1::AuditResponse EncodeAudit(const SchedulerStatus& status) {
  v1::AuditResponse response;
  for (const WorkerStatus& worker : status.workers) {
    if (!worker.audit.empty()) AddProblem(worker.name, worker.audit, response);
  }
  if (response.problems().empty() && !status.audit.empty()) {
    AddProblem(/*worker=*/"", status.audit, response);
  }
  return response;
}

}  // namespace bole
