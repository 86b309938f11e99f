// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <delayqueue/client.h>
#include <thread>
#include "redis/reply.h"
#include "run/loop.h"
