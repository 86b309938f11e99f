#include "inspector/leftovers.h"

namespace delayqueue {

void collect(SharedConnection& shared_connection, const std::vector<std::string>& garbage) {
  if (garbage.empty()) return;
  shared_connection.ask([&](redis::Pipeline& pipeline) { return shared_connection.moves().gc(pipeline, garbage); });
}

void collect_all(SharedConnection& shared_connection) {
  while (true) {
    const auto some = shared_connection.ask(
        [&](redis::Pipeline& pipeline) { return shared_connection.moves().sample_garbage(pipeline); });
    if (some.empty()) return;
    collect(shared_connection, some);
  }
}

std::uint64_t remove_hints(SharedConnection& shared_connection, const std::string& list) {
  std::uint64_t places = 0;
  for (std::size_t passed = store::kBatch; passed == store::kBatch; places += passed) {
    const auto step = shared_connection.ask(
        [&](redis::Pipeline& pipeline) { return shared_connection.moves().purge_hints(pipeline, list); });
    collect(shared_connection, step.garbage);
    passed = step.removed;
  }
  return places;
}

}  // namespace delayqueue
