#include <delayqueue/delayqueue.h>
#include <iostream>
#include "store/moves.h"
