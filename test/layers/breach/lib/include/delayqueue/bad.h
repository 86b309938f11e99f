// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <delayqueue/good.h>
#include <hiredis/hiredis.h>
#include <vector>
#include "redis/reply.h"
