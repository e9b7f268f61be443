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

// What files look like from outside. It differs after somebody wrote one of
// them or put another one, or another mode, in its place.
std::string StampOf(const std::vector<std::string>& paths);

// Looks at files again and again, with a thread of its own.
class FileWatch {
 public:
  // Calls `on_change` on that thread each time that the files look different
  // from before and have then stood still for an interval, so that they may be
  // written in place. They are compared with `stamp` first, which is to be from
  // before they were read.
  FileWatch(std::vector<std::string> paths, std::string stamp,
            std::chrono::milliseconds interval,
            std::function<void()> on_change);
  ~FileWatch();  // Waits for a call that is under way.

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

  // Used by the thread alone: what the files looked like when the last change
  // was told, and when they were looked at last.
  std::string told_stamp_;
  std::string seen_stamp_;
  std::thread thread_;  // Uses the rest: last.
};

}  // namespace bole

#endif  // BOLE_COMMON_FILE_WATCH_H_
