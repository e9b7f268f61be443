// Command-line flags of an engine's sizes.
#ifndef BOLE_WORKER_SERVICE_ENGINE_FLAGS_H_
#define BOLE_WORKER_SERVICE_ENGINE_FLAGS_H_

#include "worker_service/engine.h"

namespace CLI {
class App;
}  // namespace CLI

namespace bole {

// Adds flags that set `options`; what it holds are the defaults.
void AddEngineFlags(CLI::App& command, EngineOptions& options);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_FLAGS_H_
