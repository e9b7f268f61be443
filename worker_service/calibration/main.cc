// bole-calibrate: measures what the rounds of a running worker cost.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/command_line.h"
#include "common/cost_table.h"
#include "common/net/client_credentials.h"
#include "common/status_macros.h"
#include "worker_service/calibration/calibrator.h"
#include "worker_service/calibration/combinations.h"
#include "worker_service/calibration/report.h"
#include "worker_service/calibration/worker_client.h"

namespace bole {
namespace {

struct Flags {
  std::string worker = "127.0.0.1:50052";
  TlsClientFiles tls;
  std::string out;
  std::string plot;
  bool coarse = false;
  int max_seconds = 0;
};

// Shows the progress: on a terminal in one line that changes, elsewhere in a
// new line for each phase and for every tenth of it.
class ProgressLine {
 public:
  void Show(const CalibrationProgress& progress) {
    const int tenth = 10 * progress.done / std::max(progress.total, 1);
    const std::string text = absl::StrCat(progress.phase, " ", progress.done,
                                          " of ", progress.total);
    if (terminal_) {
      std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    } else if (tenth != tenth_ || progress.phase != phase_) {
      std::fprintf(stderr, "%s\n", text.c_str());
    }
    tenth_ = tenth;
    phase_ = progress.phase;
  }
  void Clear() const {
    if (terminal_) std::fputs("\r\x1b[K", stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  int tenth_ = 0;
  std::string phase_;
};

// Writes the file atomically: it appears whole or not at all.
absl::Status WriteFile(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary);
  file << text;
  file.close();
  if (file.good() && std::rename(partial.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
}

absl::Status Run(const Flags& flags) {
  ProgressLine line;
  const absl::StatusOr<std::string> text = CalibrateRemotely(
      {.worker = flags.worker,
       .tls = flags.tls,
       .size = flags.coarse ? CalibrationSize::kCoarse : CalibrationSize::kFull,
       .max_seconds = flags.max_seconds},
      [&](const CalibrationProgress& progress) { line.Show(progress); });
  line.Clear();
  BOLE_RETURN_IF_ERROR(text.status());
  BOLE_ASSIGN_OR_RETURN(const CostTable table, ParseCostTable(*text));
  BOLE_RETURN_IF_ERROR(WriteFile(flags.out, *text));
  if (!flags.plot.empty()) {
    BOLE_RETURN_IF_ERROR(WriteFile(flags.plot, ChartsOf(table)));
  }
  std::printf("%s", ReportOf(table).c_str());
  std::printf(
      "written to %s; the worker uses it from now on. Start it the next time "
      "with\n  bole-worker --cost-table %s ...\n",
      flags.out.c_str(), flags.out.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace bole

int main(int argc, char** argv) {
  bole::CommandLine app(
      "bole-calibrate",
      "Measures what rounds cost on a worker that no scheduler is connected "
      "to, and writes the table by which schedulers choose what to verify and "
      "what to draft. A table holds for one model on one device.");
  bole::Flags flags;
  app.Add("--worker", flags.worker, "HOST:PORT of the worker");
  app.Add("--out", flags.out, "the file of the table").Required();
  app.AddSwitch("--coarse", flags.coarse,
                "about 50 kinds of rounds instead of 200: enough for a CPU or "
                "a first try");
  app.Add("--plot", flags.plot, "draw the table as SVG into this file");
  app.Add("--max-seconds", flags.max_seconds,
          "begin no measurement later than this; 0: no limit. The fewer "
          "measurements, the less of a noisy machine averages out")
      .Range(0, 86'400);
  app.Add("--worker-ca", flags.tls.ca,
          "the worker is spoken to over TLS, and its certificate is of these, "
          "in PEM")
      .Group("Security");
  app.Add("--worker-cert", flags.tls.cert,
          "certificate chain to show it, in PEM")
      .Group("Security");
  app.Add("--worker-key", flags.tls.key, "its private key, in PEM")
      .Group("Security");
  app.Add("--worker-name", flags.tls.server_name,
          "the name in its certificate; its address if left out")
      .Group("Security");
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const absl::Status status = bole::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "bole-calibrate: %s\n", status.ToString().c_str());
  return 1;
}
