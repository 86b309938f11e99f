// The contents of a scene's queue as one table, and a saved copy of it, for tests that run many cases on the same
// queue.
#pragma once

#include "support/moves.h"

namespace test {

// The contents of a queue: the value of each (key without its base, id or field). For a list: how often it has the id.
// For a body: the payload, and its TTL in minutes. Long values are "long".
using Cells = std::map<std::pair<std::string, std::string>, std::string>;

// A saved copy of a queue. Restoring it before each case is much faster than building the queue again. No other
// scene may use its server.
class SavedQueue {
 public:
  explicit SavedQueue(Scene& scene);

  void restore();
  Cells cells();

 private:
  Reply script(const char* source);

  Scene& scene_;
};

// Whether two values are equal, except for times, which differ between two runs of a move.
bool alike(const std::string& a, const std::string& b);

}  // namespace test
