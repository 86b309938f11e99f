#include <delayqueue/version.h>

namespace delayqueue {

const char* version() noexcept { return DELAYQUEUE_VERSION; }

}  // namespace delayqueue
