#include "serve/workers.h"

#include <vector>

#include "registries.h"

namespace dqctl {

Object workers_object(Context& context) {
  const WorkerReading reading = read_registries(context, context.inspector("queues").queues(), false);
  std::vector<Object> workers;
  for (const WorkerRow& row : reading.rows) workers.push_back(worker_object(row, reading.now));
  return Object().add("workers", workers).add("errors", reading.error_objects);
}

}  // namespace dqctl
