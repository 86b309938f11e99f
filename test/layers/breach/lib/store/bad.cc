// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <hiredis/hiredis.h>
#include <time.h>
#include "redis/reply.h"
#include "run/loop.h"
#include "store/keys.h"
