#include <delayqueue/good.h>
#include <hiredis/hiredis.h>
#include <vector>
#include "redis/reply.h"
