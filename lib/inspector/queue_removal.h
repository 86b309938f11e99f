// Deletes all traces of an empty queue: the implementation of QueueAdmin::forget.
#pragma once

#include "queue/shared_connection.h"

#include <delayqueue/outcomes.h>

namespace delayqueue {

class QueueRemoval {
 public:
  explicit QueueRemoval(SharedConnection& shared_connection) : shared_connection_(shared_connection) {}

  Remains run();

 private:
  Remains find_remains();
  // Deletes the remaining keys. False: nothing was deleted, since messages or garbage are left.
  bool delete_keys();
  // Whether an idle consumer takes the wake-up marker.
  bool is_served();

  const store::Keys& keys() const { return shared_connection_.store().keys(); }
  const store::Store& store() const { return shared_connection_.store(); }

  SharedConnection& shared_connection_;
};

}  // namespace delayqueue
