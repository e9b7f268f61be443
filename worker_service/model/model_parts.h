// The parts that the models of a replica are made from.
#ifndef BOLE_WORKER_SERVICE_MODEL_MODEL_PARTS_H_
#define BOLE_WORKER_SERVICE_MODEL_MODEL_PARTS_H_

#include "kernels/operator_set.h"
#include "worker_service/model/layer_context.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/sequence_memory.h"
#include "worker_service/model/weights.h"

namespace bole {

// References; everything must outlive the models.
struct ModelParts {
  const ModelConfig& config;  // The rank's part of the model.
  const Weights& weights;
  OperatorSet& operators;
  const SequenceMemory& memory;
  const Scratch& scratch;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MODEL_PARTS_H_
