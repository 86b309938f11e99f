#include <delayqueue/schedules.h>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

const char* to_string(Missed missed) {
  switch (missed) {
    case Missed::none:
      return "none";
    case Missed::last:
      return "last";
    case Missed::all:
      return "all";
  }
  return "unknown";
}

const char* to_string(Overlap overlap) { return overlap == Overlap::allow ? "allow" : "skip"; }

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
