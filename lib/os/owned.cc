#include <delayqueue/detail/owned.h>

#include <unistd.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace internal {

long this_process() { return ::getpid(); }

void check_owned(const void* impl, long owner, const char* name) {
  if (impl == nullptr) {
    throw std::logic_error(std::string(name) +
                           ": used after it was moved from; only destroy it, or assign another one to it");
  }
  if (owner == this_process()) return;
  throw std::logic_error(std::string(name) + ": used in process " + std::to_string(this_process()) +
                         ", a fork of process " + std::to_string(owner) +
                         " that created it; create another one after the fork");
}

// The list makes the objects reachable, so leak checkers do not report them.
void keep(std::shared_ptr<void> impl) {
  static auto* const all = new std::vector<std::shared_ptr<void>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all->push_back(std::move(impl));
}

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
