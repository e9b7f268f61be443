#ifndef BOLE_KERNELS_DEVICE_H_
#define BOLE_KERNELS_DEVICE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/graph_set.h"
#include "kernels/tensor.h"

namespace bole {

// Frees memory of the device that gave it out; the device must outlive it.
class Device;
struct DeviceDeleter {
  Device* device = nullptr;
  void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, DeviceDeleter>;
struct HostDeleter {
  Device* device = nullptr;
  void operator()(void* memory) const;
};
using HostMemory = std::unique_ptr<void, HostDeleter>;

// How much memory a device has of its own.
struct MemoryState {
  size_t free_bytes;
  size_t total_bytes;
};

// The two ends of a copy: bytes on the device, and as many in memory of
// AllocateHost().
struct HostCopy {
  void* device;
  void* host;
  size_t bytes;
};

// Memory, copies, and the queue in which they and the operators run.
//
// Not thread-safe: one thread at a time drives a device. The thread that made
// the device may do so at once; every other thread calls BindThread() first.
class Device {
 public:
  virtual ~Device() = default;

  // Lets the calling thread drive this device, until it is bound to another
  // one. INTERNAL if the device is gone. COST: well below a microsecond, so
  // Engine binds the thread of every step.
  virtual absl::Status BindThread() { return absl::OkStatus(); }

  // For people: "cpu, 2 threads".
  virtual std::string description() const = 0;
  virtual ElementType activation_type() const = 0;
  // Absent for a device that uses the host's memory.
  virtual std::optional<MemoryState> memory() const = 0;

  // Memory. Allocate returns 64-byte aligned memory with unspecified content,
  // or RESOURCE_EXHAUSTED naming `what` and the bytes. Upload and Download copy
  // between host and device in order with the operators; Download returns when
  // the bytes have arrived and reports errors of everything queued before.
  virtual absl::StatusOr<DeviceMemory> Allocate(size_t bytes,
                                                std::string_view what) = 0;
  // As Allocate, for memory that the operators of other ranks read too. All
  // ranks call it together, with the same size; if one fails, all fail.
  virtual absl::StatusOr<DeviceMemory> AllocateShared(size_t bytes,
                                                      std::string_view what) {
    return Allocate(bytes, what);
  }
  virtual absl::Status Upload(void* device, const void* host, size_t bytes) = 0;
  virtual absl::Status Download(void* host, const void* device,
                                size_t bytes) = 0;
  // Widens activations to float32 on the host.
  virtual absl::Status DownloadActivations(std::span<float> host,
                                           const Activation* device) = 0;
  // Host memory, 64-byte aligned, that copies can use without the host waiting.
  virtual absl::StatusOr<HostMemory> AllocateHost(size_t bytes,
                                                  std::string_view what) = 0;
  // As Download, into memory of AllocateHost(), but does not wait: the bytes
  // have arrived once a mark that was set later has been reached.
  virtual absl::Status QueueDownload(void* host, const void* device,
                                     size_t bytes) = 0;
  // Copies within the device, in order with the operators. The two ranges must
  // not overlap.
  virtual absl::Status CopyDevice(void* to, const void* from, size_t bytes) = 0;
  // Copies that run concurrently with the operators, in a queue of their own.
  // They begin when the operators queued so far have ended. Operators that are
  // queued after AwaitHostCopies(), and only those, wait until all copies
  // queued before it have ended. The host never waits.
  virtual absl::Status CopyToHost(std::span<const HostCopy> copies) = 0;
  virtual absl::Status CopyFromHost(std::span<const HostCopy> copies) = 0;
  virtual absl::Status AwaitHostCopies() = 0;

  // An empty set that keeps up to `capacity` keys, if this device can keep any;
  // the device must outlive it.
  virtual std::unique_ptr<GraphSet> MakeGraphs(int capacity) = 0;

  // Marks in the queue, numbered 0 .. kNumMarks - 1; setting a mark again moves
  // it. AwaitMark returns when everything before the mark is done, with its
  // errors. SecondsBetween returns the time that passed on the device between
  // two marks, each of which has been awaited or lies before one that has.
  static constexpr int kNumMarks = 64;
  virtual absl::Status SetMark(int mark) = 0;
  virtual absl::Status AwaitMark(int mark) = 0;
  virtual absl::StatusOr<double> SecondsBetween(int from, int to) = 0;

 private:
  friend struct DeviceDeleter;
  friend struct HostDeleter;
  virtual void Free(void* memory) = 0;
  virtual void FreeHost(void* memory) = 0;
};

inline void DeviceDeleter::operator()(void* memory) const {
  device->Free(memory);
}
inline void HostDeleter::operator()(void* memory) const {
  device->FreeHost(memory);
}

}  // namespace bole

#endif  // BOLE_KERNELS_DEVICE_H_
