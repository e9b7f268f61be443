// Notices that files change.
#ifndef BOLE_COMMON_FILE_WATCH_H_
#define BOLE_COMMON_FILE_WATCH_H_

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace bole {

// A summary of the files' metadata. It differs after a file was written or
// replaced, or its mode was changed.
std::string StampOf(const std::vector<std::string>& paths);

// Polls files in a thread of its own.
class FileWatch {
 public:
  // Calls `on_change` on that thread each time that the files have changed and
  // then stayed the same for an interval, so that they may be written in place.
  // They are first compared with `stamp`, which must have been taken before
  // they were read.
  FileWatch(std::vector<std::string> paths, std::string stamp,
            std::chrono::milliseconds interval,
            std::function<void()> on_change);
  ~FileWatch();  // Waits for a call that is in progress.

  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  void Run();
  // Returns false if the watch ends.
  bool AwaitNextLook();

  const std::vector<std::string> paths_;
  const std::chrono::milliseconds interval_;
  const std::function<void()> on_change_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Used only by the thread: the stamps of the files at the last call of
  // on_change_ (or at the start), and at the last poll.
  std::string told_stamp_;
  std::string seen_stamp_;
  std::thread thread_;  // Uses the other members, so it is last.
};

}  // namespace bole

#endif  // BOLE_COMMON_FILE_WATCH_H_
