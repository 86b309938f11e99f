#include "serve/workers.h"

#include <vector>

namespace dqctl {

Object workers_object(Context&) {
  return Object().add("workers", std::vector<Object>()).add("errors", std::vector<Object>());
}

}  // namespace dqctl
