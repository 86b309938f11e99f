// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <delayqueue/delayqueue.h>
#include <iostream>
#include "store/moves.h"
