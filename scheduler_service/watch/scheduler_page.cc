#include "scheduler_service/watch/scheduler_page.h"

#include "common/net/metrics_page.h"
#include "common/net/process_metrics.h"
#include "scheduler_service/watch/vllm_names.h"

namespace bole {

std::shared_ptr<prometheus::Collectable> MakeSchedulerPage(
    const Metrics& metrics, const SchedulerPageOptions& options) {
  auto page = std::make_shared<MetricsPage>();
  page->Add(metrics.registry());
  page->Add(std::make_shared<ProcessMetrics>("scheduler"));
  page->Add(std::make_shared<CertificateMetrics>(options.certificates));
  if (options.vllm_names) {
    page->Add(std::make_shared<VllmNames>(metrics.registry()));
  }
  return page;
}

}  // namespace bole
