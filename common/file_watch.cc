#include "common/file_watch.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace bole {

std::string StampOf(const std::vector<std::string>& paths) {
  std::string stamp;
  for (const std::string& path : paths) {
    struct stat is;
    if (stat(path.c_str(), &is) != 0) {
      stamp += "none\n";
      continue;
    }
    absl::StrAppend(&stamp, is.st_dev, " ", is.st_ino, " ", is.st_size, " ",
                    is.st_mode, " ", is.st_mtim.tv_sec, " ");
    absl::StrAppend(&stamp, is.st_mtim.tv_nsec, "\n");
  }
  return stamp;
}

FileWatch::FileWatch(std::vector<std::string> paths, std::string stamp,
                     std::chrono::milliseconds interval,
                     std::function<void()> on_change)
    : paths_(std::move(paths)),
      interval_(interval),
      on_change_(std::move(on_change)),
      told_stamp_(stamp),
      seen_stamp_(std::move(stamp)),
      thread_([this] { Run(); }) {}

FileWatch::~FileWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool FileWatch::AwaitNextLook() {
  const auto next = std::chrono::steady_clock::now() + interval_;
  MutexLock lock(mutex_);
  while (!stopping_ && changed_.WaitUntil(mutex_, next)) continue;
  return !stopping_;
}

void FileWatch::Run() {
  while (AwaitNextLook()) {
    std::string stamp = StampOf(paths_);
    const bool stands_still = stamp == seen_stamp_;
    seen_stamp_ = std::move(stamp);
    if (!stands_still || seen_stamp_ == told_stamp_) continue;
    told_stamp_ = seen_stamp_;
    on_change_();
  }
}

}  // namespace bole
