// An object of this process that is made when it is first used, and never destroyed: threads and static objects of the
// host program may use it until the process ends.
#pragma once

#include <delayqueue/detail/owned.h>

#include <atomic>
#include <memory>

namespace delayqueue {

// A forked process makes another object: two processes must not share a connection or a child process, and threads that
// the new process does not have may hold locks of the inherited object.
template <class Object>
class PerProcess {
 public:
  Object& get() {
    Made* made = made_;
    while (made == nullptr || made->process != internal::this_process()) {
      auto fresh = std::make_unique<Made>(made);
      if (made_.compare_exchange_strong(made, fresh.get())) made = fresh.release();
    }
    return made->object;
  }

  // Null if this process has not used it.
  Object* find() {
    Made* const made = made_;
    return made == nullptr || made->process != internal::this_process() ? nullptr : &made->object;
  }

 private:
  struct Made {
    explicit Made(const Made* of_parent) : parent(of_parent) {}

    const Made* const parent;  // of the process that forked this one; never used
    const long process = internal::this_process();
    Object object;
  };

  std::atomic<Made*> made_{nullptr};
};

}  // namespace delayqueue
