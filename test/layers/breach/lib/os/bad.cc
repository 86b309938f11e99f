#include <delayqueue/error.h>
#include <unistd.h>
#include "run/loop.h"
