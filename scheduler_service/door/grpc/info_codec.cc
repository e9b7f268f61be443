#include "scheduler_service/door/grpc/info_codec.h"

#include "scheduler_service/door/grpc/sampling_codec.h"
#include "scheduler_service/door/request_body.h"

namespace bole {
namespace {

const char* NameOf(SpeculationMode mode) {
  switch (mode) {
    case SpeculationMode::kOff:
      return "off";
    case SpeculationMode::kChain:
      return "chain";
    case SpeculationMode::kTree:
      return "tree";
  }
  return "";
}

void Encode(const Speculation& speculation, v1::SpeculationPolicy& message) {
  message.set_mode(NameOf(speculation.mode));
  if (speculation.mode == SpeculationMode::kOff) return;
  const bool is_tree = speculation.mode == SpeculationMode::kTree;
  message.set_top_k(is_tree ? speculation.shape.top_k : 1);
  message.set_depth(speculation.shape.depth);
  message.set_nodes(is_tree ? speculation.nodes : speculation.shape.depth + 1);
  message.set_policy("fixed");
}

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
}

void Encode(const SchedulerStatus& status, const AdmissionLoad& waiting,
            v1::Load& message) {
  message.set_running_requests(status.running);
  message.set_waiting_requests(status.waiting);
  message.set_waiting_tokens(waiting.tokens);
  message.set_waiting_bytes(waiting.bytes);
  Encode(status.slots, *message.mutable_slots());
  Encode(status.pages, *message.mutable_pages());
  message.set_audit(status.audit);
}

}  // namespace

v1::GetModelInfoResponse EncodeModelInfo(const ModelText& text,
                                         const WorkerDescription& worker) {
  v1::GetModelInfoResponse info;
  info.set_model(worker.model);
  info.set_max_context(ContextCapacity(worker.limits));
  info.set_vocab_size(worker.limits.vocabulary);
  info.mutable_eos_token_ids()->Add(worker.stop_tokens.begin(),
                                    worker.stop_tokens.end());
  *info.mutable_default_sampling_params() = EncodeDefaults(worker);
  info.set_has_drafter(worker.has_drafter);
  info.set_has_chat_template(text.chat_template.has_value());
  info.set_synthetic(worker.synthetic);
  return info;
}

v1::GetServerInfoResponse EncodeServerInfo(const SchedulerStatus& status,
                                           const AdmissionLoad& waiting) {
  v1::GetServerInfoResponse info;
  for (const WorkerStatus& worker : status.workers) {
    Encode(worker, *info.add_workers());
  }
  Encode(status, waiting, *info.mutable_load());
  Encode(status.speculation, *info.mutable_speculation());
  return info;
}

}  // namespace bole
