#include "worker_service/serving/serving_flags.h"

namespace bole {

void ServingFlags::AddTo(CommandLine& app) {
  app.Add("--listen", address,
          "address for the scheduler; port 0: any that is free");
  app.Add("--metrics-listen", metrics_address,
          "address for Prometheus, at /metrics; none if left out");
  app.Add("--health-listen", health_address,
          "address of grpc.health.v1 alone, for whoever reaches it on any "
          "machine: without TLS; none if left out");
  app.Add("--tls-cert", tls.cert,
          "certificate chain in PEM: --listen and --metrics-listen speak TLS. "
          "Read again when it changes")
      .Group("Security");
  app.Add("--tls-key", tls.key, "its private key, in PEM").Group("Security");
  app.Add("--tls-client-ca", tls.client_ca,
          "schedulers, and whoever reads metrics, need a certificate of "
          "these, in PEM")
      .Group("Security");
  app.AddSwitch("--allow-remote", allow_remote,
                "let the addresses be reached from other machines although "
                "everybody there is obeyed; with --tls-client-ca they may be "
                "without this")
      .Group("Security");
  app.Add("--heartbeat-ms", heartbeat_ms,
          "milliseconds between signs of life, of the worker and its scheduler")
      .Range(10, 60'000);
  app.Add("--scheduler-timeout-ms", scheduler_timeout_ms,
          "another scheduler may take the worker when its own was silent for "
          "this time, and for three heartbeats")
      .Range(100, 3'600'000);
  app.Add("--drain-seconds", drain_seconds,
          "after SIGTERM, wait so long for the scheduler to leave")
      .Range(0, 86'400);
  app.Add("--otlp-endpoint", collector.endpoint,
          "http://HOST:4318/v1/traces, or https, of a collector that gets this "
          "worker's spans of the requests that the scheduler samples; none if "
          "left out")
      .Group("Watching");
  app.Add("--otlp-ca", collector.ca_file,
          "https: the collector's certificate is of these authorities, in PEM; "
          "of the system's if left out")
      .Group("Watching");
}

}  // namespace bole
