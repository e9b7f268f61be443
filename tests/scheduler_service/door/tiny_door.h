// A front door of the tiny model, without a protocol and without a thread that
// takes what it lets in.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_DOOR_TINY_DOOR_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_DOOR_TINY_DOOR_H_

#include <utility>
#include <vector>

#include "common/ids.h"
#include "prometheus/registry.h"
#include "scheduler_service/door/access.h"
#include "scheduler_service/door/asked_models.h"
#include "scheduler_service/door/door_limits.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/models/worker_presence.h"
#include "scheduler_service/scheduler.h"
#include "scheduler_service/scheduler_loop.h"
#include "scheduler_service/watch/metrics.h"
#include "tests/scheduler_service/served_model.h"

namespace bole::testing {

struct TinyDoor {
  explicit TinyDoor(const DoorLimits& limits = {},
                    const AdmissionLimits& admission = {},
                    Access* access = nullptr)
      : loop(Options(admission), catalog, metrics),
        door(limits, models, loop, registry, access) {}

  static SchedulerOptions Options(const AdmissionLimits& admission) {
    SchedulerOptions options;
    options.admission = admission;
    return options;
  }

  static ModelCatalog TinyTextCatalog() {
    std::vector<CatalogModel> models;
    models.push_back({.name = "tiny", .text = TinyText()});
    return ModelCatalog(std::move(models));
  }

  void ConnectWorker() {
    presence.Note(
        {.worker = WorkerId(0),
         .news = WorkerConnected{.epoch = 1, .description = TinyWorker()}});
  }

  const ModelCatalog catalog = TinyTextCatalog();
  prometheus::Registry registry;
  Metrics metrics;
  WorkerPresence presence{catalog};
  const AskedModels models{catalog, presence};
  SchedulerLoop loop;  // Never started.
  FrontDoor door;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_DOOR_TINY_DOOR_H_
