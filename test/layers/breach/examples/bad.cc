#include <delayqueue/delayqueue.h>
#include <iostream>
#include "store/store.h"
