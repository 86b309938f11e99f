#include <delayqueue/version.h>

namespace delayqueue {

const char* DELAYQUEUE_ABI::version() noexcept { return DELAYQUEUE_VERSION; }

}  // namespace delayqueue
