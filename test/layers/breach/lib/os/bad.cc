#include <delayqueue/options.h>
#include <unistd.h>
#include "run/loop.h"
