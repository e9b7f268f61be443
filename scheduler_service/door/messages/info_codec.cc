#include "scheduler_service/door/messages/info_codec.h"

#include "scheduler_service/door/messages/sampling_codec.h"
#include "scheduler_service/door/request_body.h"
#include "scheduler_service/policy/policy_options.h"

namespace bole {
namespace {

v1::SpeculationMode Encode(SpeculationMode mode) {
  switch (mode) {
    case SpeculationMode::kOff:
      return v1::SPECULATION_MODE_OFF;
    case SpeculationMode::kChain:
      return v1::SPECULATION_MODE_CHAIN;
    case SpeculationMode::kTree:
      return v1::SPECULATION_MODE_TREE;
  }
  return v1::SPECULATION_MODE_UNSPECIFIED;
}

v1::BudgetPolicy Encode(PolicyKind policy) {
  switch (policy) {
    case PolicyKind::kOff:
      return v1::BUDGET_POLICY_UNSPECIFIED;
    case PolicyKind::kFixed:
      return v1::BUDGET_POLICY_FIXED;
    case PolicyKind::kEpsilon:
      return v1::BUDGET_POLICY_EPSILON;
    case PolicyKind::kAdaServe:
      return v1::BUDGET_POLICY_ADASERVE;
    case PolicyKind::kGoodput:
      return v1::BUDGET_POLICY_GOODPUT;
    case PolicyKind::kSlo:
      return v1::BUDGET_POLICY_SLO;
  }
  return v1::BUDGET_POLICY_UNSPECIFIED;
}

void Encode(const Speculation& speculation, PolicyKind policy,
            v1::SpeculationPolicy& message) {
  const bool is_off =
      policy == PolicyKind::kOff || speculation.mode == SpeculationMode::kOff;
  message.set_mode(is_off ? v1::SPECULATION_MODE_OFF
                          : Encode(speculation.mode));
  if (is_off) return;
  const bool is_tree = speculation.mode == SpeculationMode::kTree;
  message.set_top_k(is_tree ? speculation.shape.top_k : 1);
  message.set_depth(speculation.shape.depth);
  message.set_nodes(is_tree ? speculation.nodes : speculation.shape.depth + 1);
  message.set_policy(Encode(policy));
}

}  // namespace

v1::GetModelInfoResponse EncodeModelInfo(const AskedModel& model) {
  v1::GetModelInfoResponse info;
  info.set_model(model.name);
  info.set_has_chat_template(model.text.chat_template.has_value());
  info.set_ready(model.workers.ready());
  if (model.workers.description == nullptr) return info;
  const WorkerDescription& worker = *model.workers.description;
  info.set_max_context(ContextCapacity(worker.limits));
  info.set_vocab_size(worker.limits.vocabulary);
  info.mutable_eos_token_ids()->Add(worker.stop_tokens.begin(),
                                    worker.stop_tokens.end());
  *info.mutable_default_sampling_params() = EncodeDefaults(worker);
  info.set_has_drafter(worker.has_drafter);
  info.set_synthetic(worker.synthetic);
  return info;
}

v1::GetServerInfoResponse EncodeServerInfo(const SchedulerStatus& status) {
  v1::GetServerInfoResponse info;
  Encode(status.speculation, status.policy, *info.mutable_speculation());
  return info;
}

}  // namespace bole
