#include <delayqueue/options.h>
#include <thread>
#include "redis/reply.h"
#include "run/loop.h"
