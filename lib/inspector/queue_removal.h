// Deletes all traces of an empty queue: the implementation of QueueAdmin::forget.
#pragma once

#include "inspector/partitions.h"

#include <delayqueue/queue_admin.h>

#include <vector>

namespace delayqueue {

class QueueRemoval {
 public:
  explicit QueueRemoval(Partitions& partitions) : partitions_(partitions) {}

  Remains run();

 private:
  // What is left in all partitions, once finished messages are deleted.
  Remains find_all();
  Remains find(SharedConnection& partition);
  // Deletes the remaining keys of all partitions. False: messages or garbage are left in one of them.
  bool delete_all();
  // Whether an idle consumer takes the wake-up marker.
  bool is_served();

  Partitions& partitions_;
  std::vector<SharedConnection*> all_{};
};

}  // namespace delayqueue
